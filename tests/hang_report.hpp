// Writes the stacks of a hanging test program to its log.
#pragma once

#include <chrono>

namespace tutti::test {

/// Starts to watch the program: when `patience` has passed without a call of report_later(), the
/// stack of every thread is written once to standard error. The program goes on until its parent
/// ends it.
void report_hang_after(std::chrono::seconds patience);

/// Reports that a test begins or ends, so that the program does not count as hanging.
void report_later();

}  // namespace tutti::test
