// The checks at the end of a simulation.
#include <algorithm>

#include "base/error.hpp"
#include "sim/simulation/ranks/hierarchy_rank.hpp"
#include "sim/simulation/simulation.hpp"

namespace tutti::simulation {

namespace {

std::uint64_t chunks_of(const CollectiveSpec& spec, std::uint32_t ranks, Rank rank,
                        std::uint64_t chunk_bytes) {
  const std::uint64_t block = (spec.bytes + chunk_bytes - 1) / chunk_bytes;
  if (spec.kind == CollectiveKind::allgather) return block * (ranks - 1);
  if (spec.kind == CollectiveKind::broadcast && spec.root != rank) return block;
  return 0;
}

/// True if the ranks that an error names (Status::ranks()) may be at fault in the communicator or
/// in one of its side communicators. A communicator with a hierarchy also reports the errors of its
/// side communicators.
bool names_a_rank_at_fault(const Expectation& expected, const CommunicatorSpec& spec,
                           const Status& error) {
  std::vector<sim::HostId> named;
  for (const Rank rank : error.ranks()) named.push_back(spec.hosts[index(rank)]);
  if (expected.may_name(named, spec.hosts)) return true;
  const std::vector<CommunicatorSpec> sides = side_communicators(spec);
  return std::any_of(sides.begin(), sides.end(), [&](const CommunicatorSpec& side) {
    const auto in_side = [&side](sim::HostId host) {
      return std::find(side.hosts.begin(), side.hosts.end(), host) != side.hosts.end();
    };
    return std::all_of(named.begin(), named.end(), in_side) && expected.may_name(named, side.hosts);
  });
}

/// True if a rank may never learn that a peer has closed. Either the rank is cut off for longer
/// than the peer stays, or frames are lost and the few connections that a peer may have are all
/// occupied by connections to ranks that have left.
bool may_miss_a_close(const Expectation& expected, const CommunicatorSpec& spec, bool loss) {
  using device::fault::FaultSite;
  using device::fault::Packet;
  constexpr Nanoseconds kLastRetransmissions{100'000'000};
  const bool few = spec.max_connections > 0 &&
                   (loss || spec.faults.concerns(FaultSite::sender, Packet::reliable));
  const Nanoseconds stay = spec.engine.close_linger - kLastRetransmissions;
  return closes(spec) && (few || expected.longest_absence() > stay);
}

}  // namespace

/// True if an error names a rank that had closed before the error.
bool Simulation::names_a_closed_rank(const Member& member) const {
  const auto failed = [](const CollectiveEnd& end) { return end.done && end.code != Code::ok; };
  const auto first = std::find_if(member.ends.begin(), member.ends.end(), failed);
  const std::span<const Rank> named = member.first_error.ranks();
  return std::any_of(named.begin(), named.end(), [&](Rank rank) {
    const CollectiveEnd& close = this->member(member.communicator, rank).ends.back();
    return close.done && first != member.ends.end() && close.ended_at <= first->ended_at;
  });
}

Status Simulation::check_end() {
  const Expectation expected(config_);
  for (const Member& member : members_) {
    if (Status status = check_member(expected, member); !status) {
      return failure(status.code(), "rank {} of communicator {}: {}", index(member.rank),
                     member.communicator, status.message());
    }
  }
  return check_ports();
}

Status Simulation::check_member(const Expectation& expected, const Member& member) const {
  if (hosts_[member.host].dead) return {};
  if (const std::uint64_t taken = member.endpoint->nic().strangers_accepted; taken > 0) {
    return failure(Code::internal, "{} forged or repeated datagrams were accepted", taken);
  }
  const CommunicatorSpec& spec = config_.communicators[member.communicator];
  for (const CollectiveRun& run : member.runs) {
    if (Status status = run.check_untouched(); !status) return status;
  }
  if (!member.first_error.ok()) {
    if (names_a_rank_at_fault(expected, spec, member.first_error)) return {};
    const bool missed = may_miss_a_close(expected, spec, !losses_.empty());
    if (missed && names_a_closed_rank(member)) return {};
    return failure(Code::internal,
                   "a collective failed with an error that does not name the lost rank: {}",
                   member.first_error.to_string());
  }
  const std::uint32_t ranks = calling_ranks(spec);
  std::uint64_t chunks = 0;
  std::uint64_t placed = 0;
  const std::size_t collectives = member.window ? 0 : spec.collectives.size();
  for (std::size_t i = 0; i < collectives; ++i) {
    const CollectiveSpec& what = spec.collectives[i];
    if (goes_by_hosts(spec, what)) continue;
    const std::uint64_t chunk_bytes = member.context->settings().chunk_bytes;
    chunks += spec.aggregator ? aggregated_chunks(what, spec, chunk_bytes)
                              : chunks_of(what, ranks, member.rank, chunk_bytes);
    if (spec.nic.carry_bytes) continue;
    const std::byte* all = shared_[member.communicator].absent[i].get();
    const bool gathers =
        what.kind == CollectiveKind::allgather || what.kind == CollectiveKind::ring_allgather;
    if (gathers || (what.kind != CollectiveKind::barrier && what.root != member.rank)) {
      placed += device::sim::placement_check(all, result_bytes(what, ranks));
    }
    if (gathers) {
      placed -= device::sim::placement_check(all + index(member.rank) * what.bytes, what.bytes);
    }
  }
  const observe::Counters& counters = member.context->counters();
  // Chunks of a side communicator are not compared, because their number depends on the plans of
  // the hierarchical collectives.
  const bool counted = spec.members.empty();
  if (counted && counters.chunks_received + counters.chunks_fetched != chunks) {
    return failure(
        Code::internal,
        "{} chunks were received and {} were fetched, but the collectives have {} chunks in all",
        counters.chunks_received, counters.chunks_fetched, chunks);
  }
  if (counters.messages_rejected != 0 || counters.chunks_malformed != 0) {
    return failure(Code::internal,
                   "a rank rejected {} messages and {} chunks of its peers as malformed",
                   counters.messages_rejected, counters.chunks_malformed);
  }
  // `placed_check` sums the addresses at which chunks were placed, without unexpected chunks. The
  // sum is therefore compared only if no chunk was unexpected.
  if (!spec.nic.carry_bytes && counters.chunks_unexpected == 0 &&
      member.endpoint->nic().placed_check != placed) {
    return failure(Code::internal,
                   "data was placed at wrong addresses: the sum over the placed addresses differs "
                   "from the expected sum");
  }
  return {};
}

Status Simulation::check_ports() const {
  const sim::Fabric& fabric = network_->fabric();
  const sim::FabricCounters& counters = fabric.counters();
  if (counters.in_flight != 0 && queue_.empty()) {
    return failure(Code::internal,
                   "{} packets are still in the fabric, but no event is left that moves them",
                   counters.in_flight);
  }
  if (counters.in_flight != 0) return {};
  for (std::uint32_t l = 0; l < config_.topology->links(); ++l) {
    const auto link = static_cast<sim::LinkId>(l);
    const std::uint64_t sent = fabric.tx(link).packets;
    const std::uint64_t received = fabric.rx(link).packets;
    const std::uint64_t lost = fabric.lost(link);
    if (sent != received + lost) {
      return failure(Code::internal,
                     "link {}: {} packets were sent, but {} were received and {} were lost", l,
                     sent, received, lost);
    }
  }
  return {};
}

}  // namespace tutti::simulation
