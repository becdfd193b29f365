// Keeps the cancellation of a thread (pthread_cancel) out of the library, whose calls must leave
// locks, sockets and the engine in order.
#pragma once

#include <pthread.h>

namespace tutti::device {

/// Disables the cancellation of the calling thread for the life of this object. A cancellation that
/// arrives meanwhile takes effect at the thread's next cancellation point.
class Uncancelled {
 public:
  Uncancelled() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { ::pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace tutti::device
