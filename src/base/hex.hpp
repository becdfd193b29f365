// Bytes as hexadecimal text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// The bytes as lower-case hexadecimal digits.
std::string to_hex(std::span<const std::byte> bytes);

/// Reads two hexadecimal digits a byte, in either case. Returns false unless `text` has exactly the
/// digits of `bytes`.
bool from_hex(std::string_view text, std::span<std::byte> bytes);

}  // namespace tutti
