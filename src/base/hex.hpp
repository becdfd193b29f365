// Bytes as hexadecimal text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tutti {

/// The bytes as lower-case hexadecimal digits.
std::string to_hex(std::span<const std::byte> bytes);

/// Fills `bytes` from hexadecimal digits in either case, two per byte. Returns false if `text` has
/// the wrong length or contains a character that is not a hexadecimal digit.
bool from_hex(std::string_view text, std::span<std::byte> bytes);

}  // namespace tutti
