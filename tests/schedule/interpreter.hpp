// A reference interpreter, which runs the schedules of all ranks in memory, in one thread, taking
// the next legal step at random. It moves bytes as late or as early as the rules of task.hpp allow
// and overwrites memory that a task may be writing, so that a schedule whose result depends on
// timing fails.
//
// The interpreter shares only two things with the library: the schedule classes and fill(). Unlike
// the library, it has no event graph and no matching.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.hpp"
#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"

namespace tutti::schedule {

/// Combines `elements` elements: target = left op right, where one of the two operands is the
/// target.
using Combine = void (*)(std::span<const std::byte> left, std::span<const std::byte> right,
                         std::span<std::byte> target);

/// The buffers of one rank, indexed by Buffer.
struct Memory {
  std::vector<std::byte> bytes[kBufferKinds];
  std::vector<std::byte>& of(Buffer buffer) { return bytes[static_cast<std::size_t>(buffer)]; }
};

class Interpreter {
 public:
  /// `shapes` and `memory` have one entry for each rank. The caller fills the memory with the
  /// input, and run() changes it.
  Interpreter(std::span<const Schedule> schedules, std::span<const Shape> shapes,
              std::vector<Memory>& memory, Combine combine, std::uint64_t seed);

  /// Runs all schedules to their end. The error names a task that never completes.
  Status run();

 private:
  enum class Step : std::uint8_t { waiting, issued, complete };
  struct State {
    Step step = Step::waiting;
    /// Whether the task reads its source at completion rather than at issue.
    bool late = false;
    bool rendezvous = false;  ///< whether a send completes only after its receive is posted
    std::vector<std::byte> taken;
    bool has_taken = false;
  };
  /// A message under way, identified by source, destination and match slot.
  struct Message {
    const State* sender = nullptr;
    bool posted = false;
  };
  struct RankState {
    bool begun = false;
    std::vector<State> tasks;
    std::vector<FilledTask> filled;
    std::vector<std::uint32_t> released;  ///< number of released entries, indexed by queue
    /// Number of completions that have arrived, indexed by completion queue.
    std::vector<std::uint32_t> arrived;
    /// Number of completions that wait tasks have consumed, indexed by completion queue.
    std::vector<std::uint32_t> consumed;
    std::vector<std::uint32_t> place;  ///< position of each task in its queue, indexed by task
  };
  using Name = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

  bool advance(std::uint32_t rank);
  void begin(std::uint32_t rank);
  bool may_issue(std::uint32_t rank, TaskIndex t) const;
  bool queue_allows(std::uint32_t rank, TaskIndex t) const;
  void issue(std::uint32_t rank, TaskIndex t);
  bool may_complete(std::uint32_t rank, TaskIndex t);
  bool has_arrived(const Key& key, std::uint32_t rank);
  bool all_chunks_here(std::uint32_t rank, TaskIndex t) const;
  void complete(std::uint32_t rank, TaskIndex t);
  void take(std::uint32_t rank, TaskIndex t);
  void place_chunks(std::uint32_t rank, TaskIndex t);
  void put(std::uint32_t rank, const Extent& at, std::span<const std::byte> data);
  void fold(std::uint32_t rank, const Extent& at, std::span<const std::byte> data, Side side);
  void scribble(std::uint32_t rank, const Extent& at);
  std::span<std::byte> bytes(std::uint32_t rank, const Extent& at);

  std::span<const Schedule> schedules_;
  std::vector<Memory>& memory_;
  Combine combine_;
  Random random_;
  std::vector<RankState> ranks_;
  std::map<Name, Message> messages_;
  std::size_t left_ = 0;
  Status failure_;
};

}  // namespace tutti::schedule
