// Decodes msgpack from another process, which may be unauthenticated.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>

#include "tutti/status.hpp"

namespace tutti::runtime {

/// Limit in bytes of one packed value, such as an aggregation plan.
inline constexpr std::size_t kMaxPackedBytes = 64 * 1024;
inline constexpr int kMaxPackedDepth = 4;

/// Fails on more than kMaxPackedBytes, on arrays and objects nested deeper than kMaxPackedDepth,
/// and on bytes that are not exactly one msgpack value.
Result<nlohmann::json> unpack(std::span<const std::byte> bytes);

}  // namespace tutti::runtime
