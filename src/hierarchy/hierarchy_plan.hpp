// The plan of a hierarchical collective at one rank: calls on two side communicators, each after
// the call on which it depends. A plan is data and runs nothing.
//
// The host side has the ranks of this host; the across side has the ranks of equal local rank on
// all hosts. The rank with local rank 0 is the leader of its host and exchanges data for it.
//
// With groups, every rank exchanges its own long Allgather block on the across side, and shares the
// result on its host. Long messages are cut into segments, so that a host shares one segment while
// the next arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hierarchy/host_layout.hpp"
#include "tutti/collective.hpp"
#include "tutti/units.hpp"

namespace tutti::hierarchy {

enum class HierarchySide : std::uint8_t {
  host,    ///< ranks of this host, in the order of local ranks
  across,  ///< ranks of equal local rank, in the order of hosts
};

/// One stage of a plan: a call on a side communicator.
struct HierarchyStage {
  static constexpr std::size_t kNone = SIZE_MAX;

  HierarchySide side = HierarchySide::host;
  CollectiveCall call{};                 ///< the call without its arrays of sizes and offsets
  std::vector<std::uint64_t> sizes{};    ///< sizes of an Allgatherv in bytes, else empty
  std::vector<std::uint64_t> offsets{};  ///< offsets of an Allgatherv in bytes, else empty
  /// Index of the stage that must end before this one begins; kNone: none.
  std::size_t after = kNone;
};

/// True for collectives that have a hierarchical plan: barrier, Broadcast and Allgather.
bool goes_by_hosts(Collective collective);
/// True if the hierarchical plan of a call is probably at least as fast as the call without a
/// hierarchy.
bool better_by_hosts(const CollectiveCall& call, const HostLayout& layout);

/// The stages of a call at `rank`. Each side communicator begins its stages in the returned order,
/// which is the same at all ranks of the side communicator.
std::vector<HierarchyStage> stages_by_hosts(const CollectiveCall& call, const HostLayout& layout,
                                            bool groups, Rank rank);

}  // namespace tutti::hierarchy
