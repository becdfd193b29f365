// Wrappers for the functions of the public handles. They turn exceptions into errors, and do not
// run the function in a child of fork() or in a completion callback of another engine.
#pragma once

#include "observe/log.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/progress/exception_status.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Runs the work of a call that returns a Status or a Result; fails if the caller may not use
/// `owner`.
template <typename Work>
auto at_home(const CommunicatorImpl& owner, Work&& work) -> decltype(work()) {
  return guarded([&]() -> decltype(work()) {
    if (Status status = owner.check_caller(); !status) return status;
    return work();
  });
}

/// Does the same as at_home for a call that returns no status, and logs the error. In a child of
/// fork() it does nothing; it does not even log, because a thread of the parent may have held the
/// log's lock at the fork.
template <typename Work>
auto logged_at_home(const CommunicatorImpl& owner, Work&& work) -> decltype(work()) {
  return logged([&] {
    if (!owner.check_home()) return decltype(work())();
    const Status status = owner.check_caller();
    if (!status) observe::complain(status.message());
    return status ? work() : decltype(work())();
  });
}

}  // namespace tutti::runtime
