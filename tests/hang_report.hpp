// Writes the stacks of a hanging test program to its log.
#pragma once

#include <chrono>

namespace tutti::test {

/// From now on, each time `patience` has passed without report_later(): writes every thread's stack
/// to standard error, once. Ending the program is left to its parent.
void report_hang_after(std::chrono::seconds patience);

/// A test begins or ends: the program does not hang.
void report_later();

}  // namespace tutti::test
