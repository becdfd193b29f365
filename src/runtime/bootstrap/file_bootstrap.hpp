// The bootstrap through a directory that all ranks see: file://directory.
#pragma once

#include <memory>
#include <string>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

struct FileOptions {
  std::string directory;  ///< directory, created if missing
  /// Identifies this run in the directory: equal on all ranks, and new for every run. It consists
  /// of letters, digits, '.', '_' and '-', at most 128 characters.
  std::string run_id;
  Rank rank{0};
  std::uint32_t size = 1;
  Nanoseconds timeout = std::chrono::seconds(30);  ///< time in which all ranks must join
};

/// Joins the job in the directory; returns when every rank has joined. Fails if files of an earlier
/// run with the same id remain. The last rank to end removes the files of the job.
Result<std::unique_ptr<Bootstrap>> meet_in_directory(const FileOptions& options);

}  // namespace tutti::runtime
