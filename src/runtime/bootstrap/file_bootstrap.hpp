// The bootstrap through a directory that all ranks see: file://directory.
#pragma once

#include <memory>
#include <string>

#include "runtime/bootstrap/bootstrap.hpp"

namespace tutti::runtime {

struct FileOptions {
  std::string directory;  ///< created if missing
  /// Identifies this run in the directory: the same on all ranks, new for every run.
  /// Letters, digits, '.', '_' and '-'; at most 128.
  std::string run_id;
  Rank rank{0};
  std::uint32_t size = 1;
  Nanoseconds timeout = std::chrono::seconds(30);  ///< for all ranks to come
};

/// Joins the job in the directory; returns when every rank has come. Fails where files of an
/// earlier run with the same id are left. The last rank to end removes the files of the job.
Result<std::unique_ptr<Bootstrap>> meet_in_directory(const FileOptions& options);

}  // namespace tutti::runtime
