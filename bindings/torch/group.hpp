// One process group at this rank: its ranks, names, options and counts.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

namespace tutti::torch_backend {

/// Counts of the adapter's own work.
struct Counts {
  std::atomic<std::uint64_t> operations{0};  ///< number of operations of c10d that were issued
  /// Number of tensors that were copied because of their memory layout, or because their memory
  /// overlaps that of another tensor.
  std::atomic<std::uint64_t> staged_tensors{0};
  std::atomic<std::uint64_t> staged_bytes{0};  ///< bytes of the tensors that staged_tensors counts
  /// Number of operations that waited in a queue before their start.
  std::atomic<std::uint64_t> queued{0};
  std::atomic<std::uint64_t> alone{0};    ///< number of operations in a group of one rank
  std::atomic<std::uint64_t> waited{0};   ///< number of operations whose caller waits at once
  std::atomic<std::uint64_t> high{0};     ///< number of operations of high priority
  std::atomic<std::uint64_t> futures{0};  ///< number of operations whose future was requested
};

struct Group {
  int rank = 0;
  int size = 1;
  std::string name;
  std::string key_prefix;  ///< prefix of the group's keys in the store
  /// Rank in the job, indexed by rank in the group; may be empty.
  std::vector<std::int64_t> global_ranks;
  Options options;
  std::atomic<std::int64_t> timeout_ms{0};  ///< time limit of an operation that has no own limit
  pid_t process = ::getpid();               ///< the process that made the group
  Counts counts;

  bool in_child() const { return ::getpid() != process; }
};

/// Names and values of all counts.
std::vector<std::pair<std::string, std::uint64_t>> list(const Counts& counts);

/// The ranks as text: "rank 1" or "ranks 1, 3". If a rank has another number in the job than in the
/// group, the text has both numbers.
std::string name_ranks(const Group& group, const std::vector<std::uint32_t>& ranks);

}  // namespace tutti::torch_backend
