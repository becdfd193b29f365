// What the threads of a test program that hangs are doing, for whoever reads its log later.
#pragma once

#include <chrono>

namespace tutti::test {

/// From now on, each time that so long has passed without report_later(): writes every thread's
/// stack to standard error, once. Nothing is ended; that is for who started the program.
void report_hang_after(std::chrono::seconds patience);

/// A test begins or ends: it is no hang yet.
void report_later();

}  // namespace tutti::test
