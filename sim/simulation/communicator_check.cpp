#include "sim/simulation/communicator_check.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "sim/simulation/ranks/aggregated_call.hpp"
#include "sim/simulation/ranks/hierarchy_rank.hpp"

namespace tutti::simulation {

namespace {

Status check_hierarchy(const CommunicatorSpec& spec, std::uint32_t number) {
  const std::size_t ranks = spec.hosts.size();
  const std::uint32_t each = spec.ranks_per_host;
  if (each < 2 || ranks <= each || ranks % each != 0 || spec.aggregator) {
    return failure(Code::invalid_argument,
                   "communicator {} of {} ranks{} cannot have a hierarchy with {} ranks per host: "
                   "use two or more hosts, the same number of ranks (two or more) on each, and no "
                   "aggregator",
                   number, ranks, spec.aggregator ? ", one of them an aggregator," : "", each);
  }
  // If a call has more bytes per host than this limit, its hierarchical plan may contain stages
  // that the simulation cannot run, such as an Allgatherv.
  constexpr std::uint64_t kMaxHostBytes = 512 * 1024;
  for (const CollectiveSpec& what : spec.collectives) {
    if (!may_go_by_hosts(what) || what.bytes * each <= kMaxHostBytes) continue;
    return failure(
        Code::invalid_argument,
        "communicator {} has a hierarchy, which cannot run {} with {} bytes: use at most {} bytes",
        number, to_string(what.kind), what.bytes, kMaxHostBytes / each);
  }
  return {};
}

Status check_close(const CommunicatorSpec& spec, std::uint32_t number) {
  const auto closes = [](const CollectiveSpec& one) { return one.kind == CollectiveKind::close; };
  const auto first = std::find_if(spec.collectives.begin(), spec.collectives.end(), closes);
  if (first == spec.collectives.end()) return {};
  const bool last = first + 1 == spec.collectives.end();
  const bool software = spec.nic.connections == device::sim::ConnectionKind::software;
  if (last && software && !spec.aggregator && spec.ranks_per_host == 0) return {};
  return failure(Code::invalid_argument,
                 "communicator {} cannot run the collective 'close': run it last, with "
                 "connections=software, and without an aggregator or hierarchy",
                 number);
}

}  // namespace

Status check(const CommunicatorSpec& spec, std::uint32_t number) {
  if (spec.nic.slot_exchange && !spec.faults.rules.empty()) {
    return failure(Code::invalid_argument,
                   "communicator {} has both fault rules and a slot exchange: remove "
                   "either the fault rules or the slot exchange",
                   number);
  }
  if (spec.nic.slot_exchange && spec.uc) {
    return failure(Code::invalid_argument,
                   "communicator {} has both UC multicast and a slot exchange: use UD multicast",
                   number);
  }
  const bool differs =
      std::any_of(spec.collectives.begin(), spec.collectives.end(),
                  [](const CollectiveSpec& one) { return differs_by_rank(one.kind); });
  if (!spec.nic.carry_bytes && (differs || spec.uc || spec.ranks_per_host > 0)) {
    return failure(Code::invalid_argument,
                   "communicator {} has {}, but its packets carry no bytes: set carry=yes", number,
                   differs   ? "a collective whose result differs by rank"
                   : spec.uc ? "UC multicast"
                             : "a hierarchy");
  }
  if (Status status = check_close(spec, number); !status) return status;
  if (spec.ranks_per_host > 0) {
    if (Status status = check_hierarchy(spec, number); !status) return status;
  }
  return spec.aggregator ? check_aggregated(spec) : Status();
}

}  // namespace tutti::simulation
