// Blocks signals around the start of a thread of the library. The thread inherits the mask, so that
// the application's signal handlers run on the application's own threads.
#pragma once

#include <signal.h>

#include <initializer_list>

namespace tutti::device {

/// Blocks all signals in the calling thread except those that a fault of the thread raises, such as
/// SIGSEGV. The destructor restores the mask.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    // Fault signals stay unblocked: if a thread has blocked the signal of a fault that it causes,
    // the kernel ends the process without calling a handler.
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
      sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tutti::device
