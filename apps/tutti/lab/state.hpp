// The record of a lab on disk, by which other processes find it and notice the end of its owner.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/options.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// One lab, as described by its file "lab-NAME.json".
struct LabState {
  LabOptions options;
  /// The owner, whose end ends the lab, and its start (process_start). 0 for a complete persistent
  /// lab, which only `tutti lab down` ends.
  pid_t owner = 0;
  std::uint64_t owner_start = 0;
  pid_t keeper = 0;  ///< process with the lab's private namespaces; 0: named namespaces

  /// Whether the owner ended without taking the lab down.
  bool abandoned() const;
};

/// The folder of the files: /run/tutti for root, else tutti/ in XDG_RUNTIME_DIR, else
/// /tmp/tutti-UID.
std::string state_folder();

/// Writes the file of a new lab; fails if the name is taken.
Status record_new(const LabState& state);

/// Replaces the file.
Status record(const LabState& state);

/// Removes the file, and the folder with its last file. A missing file is not a failure.
void forget(const std::string& name);

/// The lab of this name; the error names the existing labs.
Result<LabState> recorded(const std::string& name);

/// All labs with a file of this user, by name.
std::vector<LabState> all_recorded();

}  // namespace tutti::lab
