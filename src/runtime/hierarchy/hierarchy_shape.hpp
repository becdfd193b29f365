// The form of a communicator's hierarchy, which the communicator's options name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// The form of the hierarchy, parsed from the text of CommunicatorOptions::hierarchy.
struct HierarchyShape {
  bool flat = false;  ///< true: no hierarchy and no side communicators
  /// Number of leaders of a host. Each leader leads an equal part of the host's ranks.
  std::uint32_t leaders_per_host = 1;
  /// True: every rank, not only a leader, sends its long Allgather blocks to other hosts.
  bool groups = false;

  static Result<HierarchyShape> parse(std::string_view text);
  /// The hierarchy's form as text that `parse` reads.
  std::string text() const;
  /// The form that the options name. If they name none, the form that TUTTI_HIERARCHY names;
  /// without this variable, the form with one leader per host.
  static Result<HierarchyShape> wanted(const CommunicatorOptions& options);
};

}  // namespace tutti::runtime
