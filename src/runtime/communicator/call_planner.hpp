// Turns a call into an operation of the engine: checks the arguments, chooses the algorithm, and
// finds the template of its schedule.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/choice.hpp"
#include "engine/core/operation.hpp"
#include "engine/schedule/schedule_workspace.hpp"
#include "runtime/communicator/call_check.hpp"
#include "schedule/cache.hpp"
#include "schedule/shape.hpp"
#include "tutti/collective.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Properties of a communicator that are the same for all its calls.
struct CallerFacts {
  Rank rank{0};
  std::uint32_t size = 1;
  std::uint32_t hosts = 1;
  std::uint64_t max_data_bytes = 0;  ///< largest payload of a message, in bytes
  std::uint32_t chunk_bytes = 0;     ///< size of a multicast chunk, in bytes; 0: no multicast
  std::string device{};              ///< name of the communicator's device
  /// The reason why the communicator does not use multicast; empty if it does.
  std::string no_multicast{};
  /// Size in bytes of the largest block that a slot exchange carries; nothing if the device has no
  /// slots.
  std::optional<std::uint64_t> max_slot_bytes{};
};

/// A checked and planned call. The caller owns the buffers and arrays that the call names.
struct PlannedCall {
  CollectiveCall call;
  const char* algorithm_name = "";  ///< name of the algorithm, a string literal
  bool with_inline_engine = false;  ///< true: the call runs as a slot exchange
  /// Schedule to run; null if the call runs as a multicast or as a slot exchange.
  std::shared_ptr<const schedule::Schedule> schedule;
  schedule::Shape shape;
  std::uint64_t block_bytes = 0;
};

/// Plans the calls of one communicator. Thread-safe.
class CallPlanner {
 public:
  /// The algorithm table: the rules from TUTTI_ALGORITHMS and from the file that
  /// TUTTI_ALGORITHM_FILE names, and after them the built-in rules. An error (invalid_argument)
  /// names the variable.
  static Result<collectives::ChoiceTable> choices_from_environment();

  CallPlanner(const CallerFacts& facts, collectives::ChoiceTable choices);

  /// Checks and plans a call. Fails with invalid_argument for wrong sizes, an unknown root or
  /// algorithm, or an algorithm that cannot run on this number of ranks.
  Result<PlannedCall> plan(const CollectiveCall& call);
  /// Makes the operation for one run of a planned call.
  Result<std::unique_ptr<engine::Operation>> make(const PlannedCall& planned);
  /// Makes the operation for one run of a call that is not planned yet. Calls `plan` first, except
  /// for a slot exchange, which needs no plan; fails if `plan` fails.
  Result<std::unique_ptr<engine::Operation>> make(const CollectiveCall& call);

  const collectives::ChoiceTable& choices() const { return choices_; }
  /// True if a rule from an environment variable chooses the algorithm of the call.
  bool prefers(const CollectiveCall& call) const {
    return choices_.prefers(situation_of(call.collective, block_bytes_of(call, facts_.size)));
  }
  /// A warning if the environment has algorithm rules and none of them can apply to this
  /// communicator; otherwise empty.
  std::string complaint() const;

 private:
  struct Chosen {
    const collectives::AlgorithmEntry* entry = nullptr;
    schedule::Parameters parameters;
  };

  collectives::Situation situation_of(Collective collective, std::uint64_t block_bytes) const;
  Result<Chosen> choose(const CollectiveCall& call, std::uint64_t block_bytes) const;
  std::uint64_t met_below(Collective collective) const;
  /// True if a call names no algorithm and is short enough for a slot exchange.
  bool is_slot_exchange(const CollectiveCall& call) const {
    const std::uint64_t limit_bytes = met_below_[static_cast<std::size_t>(call.collective)];
    return limit_bytes > 0 && call.options.algorithm == Algorithm::automatic &&
           block_bytes_of(call, facts_.size) < limit_bytes;
  }
  Result<std::unique_ptr<engine::Operation>> make_operation(const PlannedCall& planned);
  /// Fails if a multicast call has more chunks than there are packet sequence numbers (PSNs).
  Status check_chunks(const CollectiveCall& call, std::uint64_t block_bytes) const;
  bool fits_slot(Collective collective, std::string_view algorithm,
                 std::uint64_t block_bytes) const;

  CallerFacts facts_;
  collectives::ChoiceTable choices_;
  /// For each collective, the block size in bytes below which a call becomes a slot exchange.
  std::array<std::uint64_t, kCollectives> met_below_{};
  std::mutex mutex_;  ///< guards templates_
  schedule::TemplateCache templates_;
  std::shared_ptr<engine::WorkspacePool> pool_;
};

}  // namespace tutti::runtime
