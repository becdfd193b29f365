// Lets one allocation of the process fail. A program that links failing_allocation.cpp gets its
// `operator new`, which throws std::bad_alloc once, at the allocation that fail_allocation() chose.
#pragma once

#include <span>

namespace tutti::test {

/// Lets the `number`-th allocation from now on fail, counted over all threads; 0: none fails. A
/// signal handler may call this function.
void fail_allocation(long number);
/// True if the chosen allocation has failed.
bool allocation_failed();
/// The stack of the allocation that has failed.
std::span<void* const> stack_of_failed_allocation();
/// Forgets the allocation that has failed.
void forget_failed_allocation();

/// While an object of this class exists, the allocations of its thread do not count and never fail.
class ExemptFromFailure {
 public:
  ExemptFromFailure();
  ~ExemptFromFailure();
  ExemptFromFailure(const ExemptFromFailure&) = delete;
  ExemptFromFailure& operator=(const ExemptFromFailure&) = delete;

 private:
  bool before_;
};

}  // namespace tutti::test
