#include "hierarchy/hierarchy_plan.hpp"

#include <algorithm>
#include <utility>

namespace tutti::hierarchy {

namespace {

using Side = HierarchySide;
using Stages = std::vector<HierarchyStage>;

// Segment size of a long message in bytes; a message that would have more than kMaxSegments
// segments is cut into larger ones (docs/results.md).
constexpr std::size_t kSegmentBytes = 256 * 1024;
constexpr std::size_t kMaxSegments = 16;
// Segment size in bytes of a Broadcast of at most kSegmentBytes, small enough for the slots of a
// host's slot exchange.
constexpr std::size_t kFineSegmentBytes = 64 * 1024;
// An Allgather is cut into segments if all blocks of a host together have at least this size.
constexpr std::size_t kLongRegionBytes = 1024 * 1024;
// If groups are enabled, an Allgather uses groups for blocks of at least this size.
constexpr std::size_t kLongBlockBytes = 64 * 1024;

// If every host has two ranks, only messages of at most this many bytes use the hierarchy. It keeps
// just one rank of each host off the network, which for a longer message saves less time than the
// extra copy within the host takes.
constexpr std::size_t kMaxOfPairsBytes = 2 * 1024 * 1024;

struct Segment {
  std::size_t offset = 0;
  std::size_t size = 0;
};

std::vector<Segment> segments_of(std::size_t bytes, std::size_t unit = kSegmentBytes) {
  const std::size_t most = kMaxSegments * unit;
  const std::size_t each = std::max<std::size_t>((bytes + most - 1) / most, 1) * unit;
  std::vector<Segment> segments;
  for (std::size_t at = 0; at == 0 || at < bytes; at += each) {
    segments.push_back({at, std::min(each, bytes - at)});
  }
  return segments;
}

Stages one_after_the_other(Stages stages) {
  for (std::size_t i = 1; i < stages.size(); ++i) stages[i].after = i - 1;
  return stages;
}

/// Builds the plan of one call at one rank.
class Planner {
 public:
  Planner(const CollectiveCall& call, const HostLayout& layout, Rank rank)
      : call_(call),
        layout_(layout),
        here_(layout.host_of(rank)),
        place_(layout.place_of(rank)),
        rank_(rank) {}

  Stages barrier() const;
  Stages broadcast() const;
  Stages allgather() const;
  Stages allgather_in_segments() const;
  Stages allgather_by_groups() const;

  std::size_t block_bytes() const { return call_.send.size(); }
  std::size_t region_bytes() const { return block_bytes() * layout_.ranks_per_host; }

 private:
  bool leads() const { return place_ == 0; }
  std::span<std::byte> region_of(std::uint32_t host) const {
    return call_.receive.subspan(host * region_bytes(), region_bytes());
  }
  HierarchyStage stage(Side side, Collective collective) const;
  HierarchyStage gather_at_leader() const;
  HierarchyStage share(std::span<std::byte> part) const;
  HierarchyStage exchange(Side side, std::uint32_t blocks, Rank first, std::uint32_t step,
                          const Segment& segment) const;
  template <typename Each>
  void for_each_heard(const std::vector<Segment>& segments, const Each& each) const;

  const CollectiveCall& call_;
  const HostLayout& layout_;
  std::uint32_t here_;
  std::uint32_t place_;
  Rank rank_;
};

HierarchyStage Planner::stage(Side side, Collective collective) const {
  HierarchyStage made{.side = side, .call = call_};
  made.call.collective = collective;
  made.call.root = rank_of(0);
  // Every stage is started as if its caller waited (`will_wait`), because the thread that polls the
  // first stage also polls the later stages.
  made.call.options = {.will_wait = true, .priority = call_.options.priority};
  return made;
}

Stages Planner::barrier() const {
  const HierarchyStage within = stage(Side::host, Collective::barrier);
  if (!leads()) return one_after_the_other({within, within});
  return one_after_the_other({within, stage(Side::across, Collective::barrier), within});
}

/// The plan of a Broadcast: first within the root's host, then from the leader of this host to the
/// other leaders, and last within the other hosts.
Stages Planner::broadcast() const {
  const std::uint32_t roots_host = layout_.host_of(call_.root);
  const bool has_it = here_ == roots_host;
  const std::size_t bytes = call_.receive.size();
  Stages stages;
  for (const auto [offset, size] :
       segments_of(bytes, bytes > kSegmentBytes ? kSegmentBytes : kFineSegmentBytes)) {
    HierarchyStage within = share(call_.receive.subspan(offset, size));
    if (has_it) within.call.root = rank_of(layout_.place_of(call_.root));
    HierarchyStage between = stage(Side::across, Collective::broadcast);
    between.call.receive = within.call.receive;
    between.call.root = rank_of(roots_host);
    if (!leads()) {
      stages.push_back(std::move(within));
    } else if (call_.root == rank_) {
      // The network is slower than shared memory, so a root that is a leader sends to the other
      // hosts first and then within its host.
      stages.insert(stages.end(), {between, within});
    } else if (has_it) {
      between.after = stages.size();
      stages.insert(stages.end(), {within, between});
    } else {
      within.after = stages.size();
      stages.insert(stages.end(), {between, within});
    }
  }
  return stages;
}

HierarchyStage Planner::gather_at_leader() const {
  HierarchyStage up = stage(Side::host, Collective::gather);
  up.call.receive = leads() ? region_of(here_) : std::span<std::byte>();
  return up;
}

/// The stage in which the leader sends `part` to the ranks of its host.
HierarchyStage Planner::share(std::span<std::byte> part) const {
  HierarchyStage down = stage(Side::host, Collective::broadcast);
  down.call.send = {};
  down.call.receive = part;
  return down;
}

/// The Allgather's plan: each leader gathers the blocks of its host, the leaders exchange them, and
/// each leader shares all blocks with its host.
Stages Planner::allgather() const {
  HierarchyStage across = stage(Side::across, Collective::allgather);
  across.call.send = region_of(here_);
  if (!leads()) return one_after_the_other({gather_at_leader(), share(call_.receive)});
  return one_after_the_other({gather_at_leader(), across, share(call_.receive)});
}

/// A stage that exchanges one `segment` of each of several blocks. The number of blocks is
/// `blocks`; they belong to the ranks `first`, `first` + `step`, `first` + 2 `step` and so on.
HierarchyStage Planner::exchange(Side side, std::uint32_t blocks, Rank first, std::uint32_t step,
                                 const Segment& segment) const {
  HierarchyStage made = stage(side, Collective::allgatherv);
  made.sizes.assign(blocks, segment.size);
  for (std::uint32_t i = 0; i < blocks; ++i) {
    made.offsets.push_back((index(first) + i * step) * block_bytes() + segment.offset);
  }
  return made;
}

/// Calls `each(s, host)` for every segment of the other hosts: first segment 0 of all of them, then
/// segment 1, and so on.
template <typename Each>
void Planner::for_each_heard(const std::vector<Segment>& segments, const Each& each) const {
  for (std::size_t s = 0; s < segments.size(); ++s) {
    for (std::uint32_t host = 0; host < layout_.hosts; ++host) {
      if (host != here_) each(s, host);
    }
  }
}

/// The Allgather's plan in segments: a host shares its own blocks at once, and each segment of the
/// other hosts as it arrives.
Stages Planner::allgather_in_segments() const {
  constexpr std::size_t kUp = 0;
  const std::vector<Segment> segments = segments_of(region_bytes());
  Stages stages{gather_at_leader()};
  const auto add = [&](HierarchyStage added, std::size_t after) {
    if (leads()) added.after = after;
    stages.push_back(std::move(added));
  };
  if (leads()) {
    for (const Segment& segment : segments) {
      HierarchyStage across =
          exchange(Side::across, layout_.hosts, rank_of(0), layout_.ranks_per_host, segment);
      across.call.send = region_of(here_).subspan(segment.offset, segment.size);
      add(std::move(across), kUp);
    }
  }
  add(share(region_of(here_)), kUp);
  for_each_heard(segments, [&](std::size_t s, std::uint32_t host) {
    add(share(region_of(host).subspan(segments[s].offset, segments[s].size)), kUp + 1 + s);
  });
  return stages;
}

/// The Allgather's plan by groups: every rank exchanges its block with the ranks of equal local
/// rank, then shares the received blocks within its host.
Stages Planner::allgather_by_groups() const {
  const std::vector<Segment> segments = segments_of(block_bytes());
  Stages stages;
  for (const Segment& segment : segments) {
    HierarchyStage across =
        exchange(Side::across, layout_.hosts, rank_of(place_), layout_.ranks_per_host, segment);
    across.call.send = call_.send.subspan(segment.offset, segment.size);
    stages.push_back(std::move(across));
  }
  HierarchyStage within = stage(Side::host, Collective::allgather);
  within.call.receive = region_of(here_);
  stages.push_back(std::move(within));
  for_each_heard(segments, [&](std::size_t s, std::uint32_t host) {
    HierarchyStage shared =
        exchange(Side::host, layout_.ranks_per_host, layout_.rank_at(host, 0), 1, segments[s]);
    shared.call.send = call_.receive.subspan(shared.offsets[place_], segments[s].size);
    shared.after = s;
    stages.push_back(std::move(shared));
  });
  return stages;
}

}  // namespace

bool goes_by_hosts(Collective collective) {
  return collective == Collective::barrier || collective == Collective::broadcast ||
         collective == Collective::allgather;
}

bool better_by_hosts(const CollectiveCall& call, const HostLayout& layout) {
  // A reused call may name a buffer that a barrier ignores and that differs between the ranks.
  if (call.collective == Collective::barrier) return true;
  const bool pairs = layout.ranks_per_host * layout.parts == 2;
  return !pairs || call.receive.size() <= kMaxOfPairsBytes;
}

std::vector<HierarchyStage> stages_by_hosts(const CollectiveCall& call, const HostLayout& layout,
                                            bool groups, Rank rank) {
  const Planner planner(call, layout, rank);
  if (call.collective == Collective::barrier) return planner.barrier();
  if (call.collective == Collective::broadcast) return planner.broadcast();
  if (groups && planner.block_bytes() >= kLongBlockBytes) return planner.allgather_by_groups();
  if (planner.region_bytes() >= kLongRegionBytes) return planner.allgather_in_segments();
  return planner.allgather();
}

}  // namespace tutti::hierarchy
