// Wrappers for the functions of the public handles. They turn exceptions into errors, and do not
// run the function in a child of fork().
#pragma once

#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/progress/exception_status.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Runs the work of a call that returns a Status or a Result; fails in a child of fork().
template <typename Work>
auto at_home(const CommunicatorImpl& owner, Work&& work) -> decltype(work()) {
  return guarded([&]() -> decltype(work()) {
    if (Status status = owner.check_home(); !status) return status;
    return work();
  });
}

/// Does the same as at_home for a call that returns no status. In a child of fork() it does
/// nothing; it does not even log, because a thread of the parent may have held the log's lock at
/// the fork.
template <typename Work>
auto logged_at_home(const CommunicatorImpl& owner, Work&& work) -> decltype(work()) {
  return logged([&] { return owner.check_home() ? work() : decltype(work())(); });
}

}  // namespace tutti::runtime
