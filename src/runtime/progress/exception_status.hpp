// Functions that turn an exception into a Status, so that no exception crosses the public interface
// or ends a thread of the library. While they run code of the library, they also prevent the
// cancellation of the thread (pthread_cancel).
#pragma once

#include <cxxabi.h>

#include <exception>
#include <new>

#include "device/posix/uncancelled.hpp"
#include "observe/log.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// The Status of the exception being handled; only a catch block may call this function. The
/// exception by which pthread_exit ends a thread is not an error and is rethrown.
inline Status status_of_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status(Code::resource_exhausted, "out of memory");  // needs no allocation
  } catch (const std::exception& error) {
    return Status(Code::internal, error.what());
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return Status(Code::internal,
                  "an exception was thrown that is not derived from std::exception");
  }
}

/// Runs `work`, which returns a Status or a Result; an exception becomes a failure of the same
/// type.
template <typename Work>
auto guarded(Work&& work) -> decltype(work()) {
  const device::Uncancelled uncancelled;
  try {
    return work();
  } catch (...) {
    return status_of_exception();
  }
}

/// Runs `work` for a caller to which no Status can be returned. An exception is logged, and the
/// result is then a default value.
template <typename Work>
auto logged(Work&& work) -> decltype(work()) {
  const device::Uncancelled uncancelled;
  try {
    return work();
  } catch (...) {
    observe::complain(status_of_exception().message());
  }
  return decltype(work())();
}

}  // namespace tutti::runtime
