// Bootstrap: the way in which the ranks of a job find each other before they have a communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "crypto/secret.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

using Bytes = std::vector<std::byte>;

/// The out-of-band exchange of a job: every rank contributes bytes, and every rank gets the
/// contributions of all. Calls are collective and must come in the same order on all ranks. Only
/// one thread may use a Bootstrap.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual Rank rank() const = 0;
  virtual std::uint32_t size() const = 0;
  /// The method and the address of this bootstrap for logs and error texts, such as "env:// at
  /// 127.0.0.1:29500".
  virtual std::string description() const = 0;
  /// Sends the bytes `mine`, and returns the bytes of every rank in rank order; the lengths may
  /// differ. After a timeout the error names the ranks that did not take part.
  virtual Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                               Nanoseconds timeout) = 0;
  /// A key that this bootstrap gives to the ranks of the job and to no other process, for example
  /// by a unique id; null if there is no such key.
  virtual const crypto::Secret* key() const { return nullptr; }
};

}  // namespace tutti::runtime
