// The two kinds of integrity word.
#pragma once

#include <cstdint>

namespace tutti::wire {

enum class IntegrityKind : std::uint8_t {
  keyed_tag,  ///< keyed tag: proves that the sender knows the secret and that no bit has changed
  crc32c,     ///< CRC-32C of header and payload in 64 bits; detects only accidental damage
};

}  // namespace tutti::wire
