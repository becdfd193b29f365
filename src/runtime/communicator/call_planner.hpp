// From a call to an operation of the engine: checks the arguments, chooses the algorithm, and finds
// its schedule's template.
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

/// Facts that all calls on a communicator have in common.
struct CallerFacts {
  Rank rank{0};
  std::uint32_t size = 1;
  std::uint32_t hosts = 1;
  std::uint64_t max_data_bytes = 0;  ///< payload of one message
  std::string device{};              ///< name of the device
  /// Largest block of a slot exchange; none: the device has no slots.
  std::optional<std::uint64_t> max_slot_bytes{};
};

/// A checked and planned call; the buffers and arrays that it names belong to the caller.
struct PlannedCall {
  CollectiveCall call;
  const char* algorithm_name = "";                     ///< a literal
  bool with_inline_engine = false;                     ///< runs as a slot exchange
  std::shared_ptr<const schedule::Schedule> schedule;  ///< null: multicast or slot exchange
  schedule::Shape shape;
  std::uint64_t block_bytes = 0;
};

/// Thread-safe.
class CallPlanner {
 public:
  /// Choices from TUTTI_ALGORITHMS and the file that TUTTI_ALGORITHM_FILE names, before the
  /// default ones. Errors (invalid_argument) name the variable.
  static Result<collectives::ChoiceTable> choices_from_environment();

  CallPlanner(const CallerFacts& facts, collectives::ChoiceTable choices);

  /// Checks and plans. Errors (invalid_argument): sizes that do not fit, a root or an algorithm
  /// that does not exist, or one that does not serve so many ranks.
  Result<PlannedCall> plan(const CollectiveCall& call);
  /// One run of a plan.
  Result<std::unique_ptr<engine::Operation>> make(const PlannedCall& planned);
  /// One run of a call, without a plan where it is short. Errors are those of `plan`.
  Result<std::unique_ptr<engine::Operation>> make(const CollectiveCall& call);

  const collectives::ChoiceTable& choices() const { return choices_; }
  /// A sentence on choices of the environment that do not apply here; empty: none.
  std::string complaint() const;

 private:
  struct Chosen {
    const collectives::AlgorithmEntry* entry = nullptr;
    schedule::Parameters parameters;
  };

  collectives::Situation situation_of(Collective collective, std::uint64_t block_bytes) const;
  Result<Chosen> choose(const CollectiveCall& call, std::uint64_t block_bytes) const;
  std::uint64_t met_below(Collective collective) const;
  /// Whether a call leaves the choice and is short enough for a slot exchange.
  bool is_slot_exchange(const CollectiveCall& call) const {
    const std::uint64_t limit_bytes = met_below_[static_cast<std::size_t>(call.collective)];
    return limit_bytes > 0 && call.options.algorithm == Algorithm::automatic &&
           block_bytes_of(call, facts_.size) < limit_bytes;
  }
  bool fits_slot(Collective collective, std::string_view algorithm,
                 std::uint64_t block_bytes) const;

  CallerFacts facts_;
  collectives::ChoiceTable choices_;
  std::array<std::uint64_t, kCollectives> met_below_{};  ///< bytes of a block
  std::mutex mutex_;                                     ///< guards the templates
  schedule::TemplateCache templates_;
  std::shared_ptr<engine::WorkspacePool> pool_;
};

}  // namespace tutti::runtime
