// Bootstrap: the way in which the ranks of a job find each other before they have a communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

using Bytes = std::vector<std::byte>;

/// The out-of-band exchange of a job: every rank contributes bytes, and every rank gets the
/// contributions of all. Calls are collective and must come in the same order on all ranks. Used
/// from one thread.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual Rank rank() const = 0;
  virtual std::uint32_t size() const = 0;
  /// The way in which the ranks found each other, for messages: "env:// at 127.0.0.1:29500".
  virtual std::string description() const = 0;
  /// Gathers every rank's `mine`, of any length, in rank order. After a timeout the error names the
  /// ranks that did not take part.
  virtual Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                               Nanoseconds timeout) = 0;
};

}  // namespace tutti::runtime
