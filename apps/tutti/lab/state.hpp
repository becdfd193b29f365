// The record of a lab on disk, by which other processes find the lab and notice the end of its
// owner.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/options.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// The content of one record, which is the file "lab-NAME.json".
struct LabState {
  LabOptions options;
  /// Process id and start time (see process_start) of the lab's owner; the lab ends with its owner.
  /// Both are 0 for a complete persistent lab: it has no owner, and only `tutti lab down` removes
  /// it.
  pid_t owner = 0;
  std::uint64_t owner_start = 0;
  pid_t keeper = 0;  ///< keeper process of a temporary lab; 0 for a persistent lab

  /// Whether the owner ended without removing the lab.
  bool abandoned() const;
};

/// The folder of the records. It is /run/tutti for root; for other users it is tutti/ in
/// XDG_RUNTIME_DIR, or /tmp/tutti-UID if XDG_RUNTIME_DIR is unset or not writable.
std::string state_folder();

/// Writes the record of a new lab. Error: the name is taken.
Status record_new(const LabState& state);

/// Writes the record of a lab again, with new content.
Status record(const LabState& state);

/// Removes the record of a lab, and the folder if no other record is left. Ignores a missing
/// record.
void forget(const std::string& name);

/// Reads the record of the lab of this name. The error names the existing labs.
Result<LabState> recorded(const std::string& name);

/// The records of all labs of this user, ordered by name.
std::vector<LabState> all_recorded();

}  // namespace tutti::lab
