// Work that waits for an engine, on behalf of a completion callback, which must not wait.
#pragma once

#include <thread>
#include <utility>

#include "device/posix/blocked_signals.hpp"
#include "runtime/progress/exception_status.hpp"

namespace tutti::runtime {

/// Runs `work` in a new thread and does not wait for its end. Exceptions of `work` are logged.
template <typename Work>
void in_new_thread(Work work) {
  const device::BlockedSignals blocked;
  std::thread([work = std::move(work)] { logged(work); }).detach();
}

}  // namespace tutti::runtime
