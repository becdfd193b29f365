// One collective at one rank, as the application sees it. Guard bytes surround the buffers, the
// content of each byte depends on its position, and checks at the end find wrong bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/operation.hpp"
#include "engine/messages/tagged_messages.hpp"
#include "sim/simulation/config.hpp"
#include "sim/simulation/ranks/aggregated_call.hpp"
#include "tutti/collective.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::simulation {

using Bytes = std::vector<std::byte>;

/// Returns the bytes that a collective must deliver to every rank: the block of each source, in
/// rank order. If differs_by_rank() is true for the collective, returns instead the bytes that all
/// ranks send, in rank order. All ranks share one copy of this result.
Bytes expected_result(const CollectiveSpec& spec, std::uint32_t ranks, std::uint64_t seed);

/// The size of expected_result() in bytes. Each rank receives all of these bytes, unless
/// differs_by_rank() is true for the collective.
std::uint64_t result_bytes(const CollectiveSpec& spec, std::uint32_t ranks);

/// Makes the engine's operation for a collective at one rank, as tutti::Communicator does in a job.
std::unique_ptr<engine::Operation> make_operation(const CollectiveSpec& spec, std::uint32_t ranks,
                                                  Rank rank, std::span<const std::byte> own,
                                                  std::span<std::byte> result);

/// The send and receive buffers of one rank for one collective.
class CollectiveRun {
 public:
  /// Allocates and fills the buffers. `expected` is the value of expected_result() and must outlive
  /// this object.
  CollectiveRun(const CollectiveSpec& spec, std::uint32_t ranks, Rank rank, const Bytes& expected);

  std::unique_ptr<engine::Operation> operation();
  /// The call of this rank, if the kind is allgather, broadcast or barrier.
  CollectiveCall call();
  /// The operations of this rank if the aggregator of the communicator `spec` serves the call.
  std::vector<std::unique_ptr<engine::Operation>> by_aggregator(const CommunicatorSpec& spec) {
    return aggregated_operations(*spec_, spec, own(), result());
  }
  /// The receive and the send of this rank, if the kind is `messages`. `tag` must differ between
  /// the collectives of a rank, so that messages match only within one collective.
  std::array<std::unique_ptr<engine::TaggedCall>, 2> messages(std::uint64_t tag);
  /// The buffer from which this rank sends, guard bytes included.
  std::span<const std::byte> sent() const {
    return own_.empty() ? std::span<const std::byte>(result_) : std::span<const std::byte>(own_);
  }
  /// Checks the result at completion, then overwrites both buffers as an application may. The error
  /// names the first wrong byte.
  Status finish(bool succeeded);
  /// Checks, at the end of the simulation, that nothing was written outside the buffers, or into
  /// them after completion.
  Status check_untouched() const;

 private:
  static constexpr std::size_t kGuardBytes = 64;
  static constexpr std::byte kGuard{0xc7};
  static constexpr std::byte kAfterwards{0x5e};
  static constexpr std::byte kBefore{0x11};

  /// The bytes that this rank must receive.
  const Bytes& wanted() const { return differs_by_rank(spec_->kind) ? wanted_ : *expected_; }
  std::span<std::byte> result() { return std::span(result_).subspan(kGuardBytes, result_bytes_); }
  std::span<std::byte> own() {
    return std::span(own_).subspan(kGuardBytes, own_.size() - 2 * kGuardBytes);
  }

  const CollectiveSpec* spec_;
  const Bytes* expected_;
  std::uint32_t ranks_;
  Rank rank_;
  std::uint64_t result_bytes_ = 0;
  Bytes result_;  ///< receive buffer between guard bytes
  /// Bytes that this rank must receive, if differs_by_rank() is true for the collective.
  Bytes wanted_;
  Bytes own_;  ///< the rank's block between guard bytes; empty if the block lies in `result_`
  bool finished_ = false;
};

}  // namespace tutti::simulation
