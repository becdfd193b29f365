// The record of a lab on disk, by which other processes find it, and notice that its owner is gone.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/options.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// One lab, as its file "lab-NAME.json" tells it.
struct LabState {
  LabOptions options;
  /// The process that the lab ends with, and its start (process_start); 0 for a finished persistent
  /// lab, which ends by `tutti lab down` alone.
  pid_t owner = 0;
  std::uint64_t owner_start = 0;
  pid_t keeper = 0;  ///< whose private namespaces it lives in; 0: those of everybody

  /// Whether the owner has ended without taking the lab down.
  bool abandoned() const;
};

/// Where the files are: /run/tutti for root, else tutti/ in XDG_RUNTIME_DIR, else /tmp/tutti-UID.
std::string state_folder();

/// Writes the file of a lab that must not have one yet; fails if the name is taken.
Status record_new(const LabState& state);

/// Replaces the file.
Status record(const LabState& state);

/// Removes the file, and the folder with the last one. A missing file is no failure.
void forget(const std::string& name);

/// The lab of this name; fails if there is none, naming those that there are.
Result<LabState> recorded(const std::string& name);

/// All labs that this user has a file of, by name.
std::vector<LabState> all_recorded();

}  // namespace tutti::lab
