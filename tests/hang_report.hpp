// Writes the stacks of a hanging test program to its log.
#pragma once

#include <chrono>

namespace tutti::test {

/// Starts to watch the program. If report_later() is not called for `patience`, the stack of every
/// thread is written once to standard error, and the program continues until its parent ends it.
void report_hang_after(std::chrono::seconds patience);

/// Must be called when a test begins or ends; postpones the report by `patience`.
void report_later();

}  // namespace tutti::test
