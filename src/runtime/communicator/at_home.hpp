// Runs the calls of the public handles, so that no exception leaves a call, and no call has an
// effect in a child of fork().
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

/// As at_home, for a call that returns no status: in a child of fork() it does nothing and does not
/// log, because a thread of the parent may hold the lock of the log.
template <typename Work>
auto logged_at_home(const CommunicatorImpl& owner, Work&& work) -> decltype(work()) {
  return logged([&] { return owner.check_home() ? work() : decltype(work())(); });
}

}  // namespace tutti::runtime
