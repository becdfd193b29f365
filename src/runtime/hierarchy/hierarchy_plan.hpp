// The plan of one rank for a hierarchical collective: calls on two side communicators, each after
// the call that it depends on. A plan is data and runs nothing.
//
// One side has the ranks of this host, the other the ranks with this rank's place on their hosts.
// The rank of place 0 is the leader of its host and exchanges data for it. By groups, every rank
// exchanges its own long Allgather block with the ranks of its place, and shares the result on its
// host. Long messages are cut into segments, so that a host shares one while the next arrives.
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

/// How ranks of several hosts are joined: CommunicatorOptions::hierarchy.
struct HierarchyShape {
  bool flat = false;                   ///< no side communicators
  std::uint32_t leaders_per_host = 1;  ///< each leads an equal part of its host's ranks
  bool groups = false;                 ///< every rank exchanges long Allgather blocks

  static Result<HierarchyShape> parse(std::string_view text);
  /// The text that `parse` reads as this shape.
  std::string text() const;
  /// The shape that the options name, else TUTTI_HIERARCHY, else one leader a host.
  static Result<HierarchyShape> wanted(const CommunicatorOptions& options);
};

enum class HierarchySide : std::uint8_t {
  host,    ///< ranks of this host, in the order of places
  across,  ///< ranks with this rank's place, in the order of hosts
};

/// One call on a side communicator.
struct HierarchyStage {
  static constexpr std::size_t kNone = SIZE_MAX;

  HierarchySide side = HierarchySide::host;
  CollectiveCall call{};                 ///< its sizes and offsets are the next two fields
  std::vector<std::uint64_t> sizes{};    ///< of an Allgatherv in bytes, else empty
  std::vector<std::uint64_t> offsets{};  ///< of an Allgatherv in bytes, else empty
  std::size_t after = kNone;             ///< the stage of this plan that must end before it begins
};

/// Whether a plan exists: for barrier, Broadcast and Allgather.
bool goes_by_hosts(Collective collective);
/// Whether such a call is no slower by its plan than flat.
bool better_by_hosts(const CollectiveCall& call, const HostLayout& layout);

/// The stages of a call at `rank`, in the order in which each side begins its own: the same order
/// at all ranks of that side.
std::vector<HierarchyStage> stages_by_hosts(const CollectiveCall& call, const HostLayout& layout,
                                            bool groups, Rank rank);

}  // namespace tutti::runtime
