// One collective of one rank as its application sees it: buffers with guards around them, contents
// that tell where every byte belongs, and the checks at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/operation.hpp"
#include "sim/simulation/config.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::simulation {

using Bytes = std::vector<std::byte>;

/// What the result of a collective must be: one block of each source, in order. Shared by the
/// ranks.
Bytes expected_result(const CollectiveSpec& spec, std::uint32_t ranks, std::uint64_t seed);

/// Bytes that all ranks receive into: of an allgather P blocks.
std::uint64_t result_bytes(const CollectiveSpec& spec, std::uint32_t ranks);

/// The operation of a collective at one of `ranks` ranks, as the communicator's interface makes it.
std::unique_ptr<engine::Operation> make_operation(const CollectiveSpec& spec, std::uint32_t ranks,
                                                  Rank rank, std::span<const std::byte> own,
                                                  std::span<std::byte> result);

/// The buffers of one rank for one collective.
class CollectiveRun {
 public:
  /// Allocates and fills the buffers; `expected` as expected_result() made it, outlives this.
  CollectiveRun(const CollectiveSpec& spec, std::uint32_t ranks, Rank rank, const Bytes& expected);

  std::unique_ptr<engine::Operation> operation();
  /// The bytes that this rank sends.
  std::span<const std::byte> sent() const {
    return own_.empty() ? std::span<const std::byte>(result_) : std::span<const std::byte>(own_);
  }
  /// At completion: whether the result is right; then both buffers are the application's again,
  /// which overwrites them. The failure names the first wrong byte.
  Status finish(bool succeeded);
  /// Later: whether anything was written outside the buffers, or to them after completion.
  Status check_untouched() const;

 private:
  static constexpr std::size_t kGuardBytes = 64;
  static constexpr std::byte kGuard{0xc7};
  static constexpr std::byte kAfterwards{0x5e};
  static constexpr std::byte kBefore{0x11};

  std::span<std::byte> result() { return std::span(result_).subspan(kGuardBytes, result_bytes_); }

  const CollectiveSpec* spec_;
  const Bytes* expected_;
  std::uint32_t ranks_;
  Rank rank_;
  std::uint64_t result_bytes_ = 0;
  Bytes result_;  ///< guard, result, guard
  Bytes own_;     ///< guard, own block, guard; empty where it lies in the result
  bool finished_ = false;
};

}  // namespace tutti::simulation
