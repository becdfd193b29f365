#include "sim/simulation/config_check.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "sim/simulation/ranks/aggregated_call.hpp"
#include "sim/simulation/ranks/collective_run.hpp"
#include "sim/simulation/ranks/hierarchy_rank.hpp"
#include "wire/header.hpp"

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

/// Checks that the result of a collective fits its buffers, which have memory of their own only if
/// the packets carry bytes.
Status check_bytes(const CollectiveSpec& what, const CommunicatorSpec& spec, std::uint32_t number) {
  const std::uint32_t ranks = calling_ranks(spec);
  const std::uint64_t most = std::uint64_t{1} << (spec.nic.carry_bytes ? 32 : 40);
  const std::uint64_t blocks = result_bytes({.kind = what.kind, .bytes = 1}, ranks);
  if (blocks == 0 || what.bytes <= most / blocks) return {};
  return failure(Code::invalid_argument,
                 "communicator {} of {} ranks runs {} with {} bytes, whose result has more than {} "
                 "bytes: use at most {}",
                 number, ranks, to_string(what.kind), what.bytes, most, most / blocks);
}

Status check_size(const CommunicatorSpec& spec, std::uint32_t number) {
  if (spec.hosts.empty()) {
    return failure(Code::invalid_argument, "communicator {} has 0 ranks: use at least 1", number);
  }
  if (spec.subgroups == 0 || spec.subgroups > wire::kMaxSubgroups) {
    return failure(Code::invalid_argument, "communicator {} has {} subgroups: use 1 to {}", number,
                   spec.subgroups, wire::kMaxSubgroups);
  }
  if (spec.engine.pulses_in_flight == 0) {
    return failure(Code::invalid_argument, "communicator {} has 0 pulses in flight: use at least 1",
                   number);
  }
  const std::uint32_t ranks = calling_ranks(spec);
  for (const CollectiveSpec& what : spec.collectives) {
    if (Status status = check_bytes(what, spec, number); !status) return status;
    if (!is_rooted(what.kind) || index(what.root) < ranks) continue;
    return failure(Code::invalid_argument,
                   "communicator {} runs {} with the root {}, but {} ranks call it: use a root "
                   "below {}",
                   number, to_string(what.kind), index(what.root), ranks, ranks);
  }
  return {};
}

// A fault that holds or changes a received chunk copies the bytes of the chunk.
Status check_faults(const CommunicatorSpec& spec, std::uint32_t number) {
  using namespace device::fault;
  for (const FaultRule& rule : spec.faults.rules) {
    if (spec.nic.carry_bytes || rule.place != FaultSite::receiver || rule.packet != Packet::chunk ||
        rule.action == Action::drop) {
      continue;
    }
    return failure(Code::invalid_argument,
                   "communicator {} has the fault rule \"{}\", but its packets carry no bytes: set "
                   "carry=yes, or drop the chunks",
                   number, to_string(rule));
  }
  return {};
}

Status check_communicator(const CommunicatorSpec& spec, std::uint32_t number) {
  if (Status status = check_size(spec, number); !status) return status;
  if (Status status = check_faults(spec, number); !status) return status;
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

Status check_rates(const sim::Topology& topology) {
  for (const sim::LinkSpec& one : topology.specs()) {
    if (one.bits_per_second == 0)
      return failure(Code::invalid_argument,
                     "a link of the topology has a rate of 0 bit/s: use at least 1");
  }
  return {};
}

// Checks that the topology has every host and link that a fault names.
Status check_places(const WorldConfig& config) {
  Status wrong;
  const auto need = [&wrong](const char* fault, const char* place, std::uint32_t number,
                             std::uint32_t count) {
    if (number < count || !wrong.ok()) return;
    wrong = failure(Code::invalid_argument,
                    "a fault of the kind '{0}' names {1} {2}, but the topology has {3} {1}s: name "
                    "a {1} from 0 to {4}",
                    fault, place, number, count, count - 1);
  };
  const auto need_host = [&](const char* fault, sim::HostId host) {
    need(fault, "host", index(host), config.topology->hosts());
  };
  const auto need_link = [&](const char* fault, sim::LinkId link) {
    need(fault, "link", index(link), config.topology->links());
  };
  for (const Pause& one : config.pauses) need_host("pause", one.host);
  for (const Death& one : config.deaths) need_host("death", one.host);
  for (const Outage& one : config.outages) need_link("outage", one.link);
  for (const device::sim::PathFault& one : config.path_faults) {
    need_host("path", one.from);
    need_host("path", one.to);
  }
  for (const device::sim::Replay& one : config.replays) {
    need_host("replay", one.from);
    need_host("replay", one.to);
  }
  for (const device::sim::GroupFault& one : config.group_faults) need_host("multicast", one.host);
  for (const FabricLoss& one : config.toggled_losses) need_link("lose", one.link);
  return wrong;
}

}  // namespace

Status check(const WorldConfig& config) {
  if (Status status = check_rates(*config.topology); !status) return status;
  for (std::uint32_t c = 0; c < config.communicators.size(); ++c) {
    if (Status status = check_communicator(config.communicators[c], c); !status) return status;
  }
  return check_places(config);
}

}  // namespace tutti::simulation
