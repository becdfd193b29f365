// A bound on the bytes that a rank may receive for a collective before it begins the collective.
#pragma once

#include <cstdint>

#include "schedule/schedule.hpp"
#include "schedule/shape.hpp"

namespace tutti::engine {

/// Other ranks send at most this many bytes to a rank before it calls the collective. All ranks
/// compute the same bound.
std::uint64_t unexpected_bound(const schedule::Purpose& purpose, const schedule::Shape& shape);

}  // namespace tutti::engine
