// Converts a duration to a number of microseconds.
#pragma once

#include "tutti/units.hpp"

namespace tutti::app {

inline double microseconds(Nanoseconds time) { return static_cast<double>(time.count()) / 1e3; }

}  // namespace tutti::app
