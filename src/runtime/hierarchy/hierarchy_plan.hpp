// The plan of a hierarchical collective at one rank: calls on two side communicators, each after
// the call on which it depends. A plan is data and runs nothing.
//
// The host side has the ranks of this host, the across side the ranks of equal local rank on all
// hosts. The rank with local rank 0 is the leader of its host and exchanges data for it.
//
// With groups, every rank exchanges its own long Allgather block on the across side, and shares the
// result on its host. Long messages are cut into segments, so that a host shares one segment while
// the next arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/hierarchy/host_layout.hpp"
#include "tutti/collective.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// The form of the hierarchy, as the text of CommunicatorOptions::hierarchy describes it.
struct HierarchyShape {
  bool flat = false;  ///< true: no hierarchy and no side communicators
  /// Number of leaders of a host. Each leader leads an equal part of the host's ranks.
  std::uint32_t leaders_per_host = 1;
  bool groups = false;  ///< true: each rank exchanges its own long Allgather blocks

  static Result<HierarchyShape> parse(std::string_view text);
  /// The hierarchy's form as text that `parse` reads.
  std::string text() const;
  /// The form that the options name, else the form that TUTTI_HIERARCHY names, else one leader a
  /// host.
  static Result<HierarchyShape> wanted(const CommunicatorOptions& options);
};

enum class HierarchySide : std::uint8_t {
  host,    ///< ranks of this host, in the order of local ranks
  across,  ///< ranks of equal local rank, in the order of hosts
};

/// One stage of a plan: a call on a side communicator.
struct HierarchyStage {
  static constexpr std::size_t kNone = SIZE_MAX;

  HierarchySide side = HierarchySide::host;
  CollectiveCall call{};                 ///< the call; `sizes` and `offsets` replace its arrays
  std::vector<std::uint64_t> sizes{};    ///< sizes of an Allgatherv in bytes, else empty
  std::vector<std::uint64_t> offsets{};  ///< offsets of an Allgatherv in bytes, else empty
  /// Number of the stage that must end before this one begins; kNone: none.
  std::size_t after = kNone;
};

/// True for collectives that have a hierarchical plan: barrier, Broadcast and Allgather.
bool goes_by_hosts(Collective collective);
/// True if the hierarchical plan of a call is at least as fast as the call without a hierarchy.
bool better_by_hosts(const CollectiveCall& call, const HostLayout& layout);

/// The stages of a call at `rank`. Each side communicator begins its stages in this order, which is
/// the same at all its ranks.
std::vector<HierarchyStage> stages_by_hosts(const CollectiveCall& call, const HostLayout& layout,
                                            bool groups, Rank rank);

}  // namespace tutti::runtime
