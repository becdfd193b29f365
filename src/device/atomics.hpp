// Checks of work requests for atomics, and the old value that an atomic returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/error.hpp"
#include "base/masked_atomics.hpp"
#include "device/device.hpp"

namespace tutti::device {

/// Size in bytes of the word that an atomic changes.
inline constexpr std::size_t kAtomicBytes = 8;

constexpr bool is_atomic(Opcode opcode) {
  return opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
}
/// True for work that the peer answers with data, which is written to WorkRequest::local.
constexpr bool is_answered(Opcode opcode) { return opcode == Opcode::read || is_atomic(opcode); }
constexpr AtomicKind atomic_kind(Opcode opcode) {
  return opcode == Opcode::compare_swap ? AtomicKind::compare_swap : AtomicKind::fetch_add;
}

/// Fails unless the offset is a multiple of kAtomicBytes and the buffer has kAtomicBytes bytes.
inline Status check_atomic(const WorkRequest& request) {
  if (request.local.size() == kAtomicBytes && request.remote_offset % kAtomicBytes == 0) return {};
  return failure(
      Code::invalid_argument,
      "an atomic to rank {} has offset {} and a buffer of {} bytes: use an offset that is "
      "a multiple of {}, and a buffer of {} bytes",
      index(request.peer), request.remote_offset, request.local.size(), kAtomicBytes, kAtomicBytes);
}

/// The old value that an atomic has stored in WorkRequest::local, in the byte order of this host.
inline std::uint64_t old_value(const Capabilities& capabilities,
                               std::span<const std::byte, kAtomicBytes> local) {
  std::uint64_t value = 0;
  std::memcpy(&value, local.data(), local.size());
  return capabilities.has(Capability::big_endian_atomics) ? __builtin_bswap64(value) : value;
}

}  // namespace tutti::device
