// How much other ranks may send to a rank that has not begun a collective.
#pragma once

#include <cstdint>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"

namespace tutti::engine {

/// Upper bound of the bytes that other ranks may send to a rank that has not called the collective
/// yet. All ranks compute the same bound.
std::uint64_t unexpected_bound(const schedule::Purpose& purpose, const schedule::Shape& shape);

}  // namespace tutti::engine
