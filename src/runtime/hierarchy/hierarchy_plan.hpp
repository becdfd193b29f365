// What one rank does for a hierarchical collective (C6): calls on two side communicators, each
// after the one that it depends on. A plan is data: nothing here runs anything.
//
// One side is this host's ranks, the other those that have this rank's place on their hosts. One
// rank of each host, its leader, that of place 0, speaks for the others. Long blocks of an
// Allgather may go by groups instead, each rank one of its own: it exchanges its block with those
// of its place, and shares what it heard. What is long is cut into segments, so that a host shares
// one while the next is on its way.
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
  bool flat = false;                   ///< not at all
  std::uint32_t leaders_per_host = 1;  ///< each for an equal part of its host's ranks
  bool groups = false;                 ///< long blocks of an Allgather go by groups

  static Result<HierarchyShape> parse(std::string_view text);
  /// What `parse` reads as this.
  std::string text() const;
  /// What the options ask for, else TUTTI_HIERARCHY, else one leader a host.
  static Result<HierarchyShape> wanted(const CommunicatorOptions& options);
};

enum class HierarchySide : std::uint8_t {
  host,    ///< this host's ranks, by place
  across,  ///< all hosts' ranks of this one's place, by host
};

/// One call on a side communicator.
struct HierarchyStage {
  static constexpr std::size_t kNone = SIZE_MAX;

  HierarchySide side = HierarchySide::host;
  CollectiveCall call{};                 ///< sizes and offsets: as below
  std::vector<std::uint64_t> sizes{};    ///< of an Allgatherv, else empty
  std::vector<std::uint64_t> offsets{};  ///< likewise
  std::size_t after = kNone;             ///< the stage of this plan that is over first
};

/// Barrier, Broadcast and Allgather go so.
bool goes_by_hosts(Collective collective);
/// Whether such a call is no slower so than flat.
bool better_by_hosts(const CollectiveCall& call, const HostLayout& layout);

/// The stages of a call at `rank`, in the order in which each side begins its own: the same order
/// at all ranks of that side.
std::vector<HierarchyStage> stages_by_hosts(const CollectiveCall& call, const HostLayout& layout,
                                            bool groups, Rank rank);

}  // namespace tutti::runtime
