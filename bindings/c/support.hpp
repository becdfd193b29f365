// Converts statuses, error texts and exceptions from C++ to C, and option structures of any version
// from C to C++.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "base/error.hpp"
#include "device/posix/uncancelled.hpp"
#include "tutti/status.hpp"
#include "tutti/tutti.h"

namespace tutti::c {

/// Converts a Status to its C value. A failure is also stored as the thread's last error.
tutti_status_t report(const Status& status) noexcept;

/// Runs `work`, which returns a Status, and converts this status, or an exception, to a C status.
/// pthread_cancel has no effect meanwhile: it would unwind through a noexcept function, which ends
/// the process.
template <typename Work>
tutti_status_t guarded(Work&& work) noexcept {
  const device::Uncancelled uncancelled;
  try {
    return report(work());
  } catch (const std::bad_alloc&) {
    return report(Status(Code::resource_exhausted, {}));
  } catch (const std::exception& error) {
    return report(Status(Code::internal, error.what()));
  } catch (...) {
    return report(Status(Code::internal, {}));
  }
}

/// The error for an argument of `function` that must not be NULL.
Status null_argument(const char* function, const char* argument);

/// Reads an option structure of a caller that was compiled with any version of tutti.h. Fields that
/// the caller's version lacks are 0. Fails if the caller sets a field that this version does not
/// know.
template <typename T>
Result<T> read_structure(const T* given, const char* name) {
  T known{};
  if (given == nullptr) return known;
  const std::size_t size = given->size;
  if (size < sizeof size) {
    return failure(Code::invalid_argument,
                   "{}.size is {}: set it to sizeof({}), or initialise the structure with its "
                   "TUTTI_..._INIT macro",
                   name, size, name);
  }
  std::memcpy(&known, given, std::min(size, sizeof known));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (std::any_of(bytes + std::min(size, sizeof known), bytes + size,
                  [](unsigned char byte) { return byte != 0; })) {
    return failure(Code::unsupported,
                   "{0}.size is {1}, but Tutti {2} knows only the first {3} bytes, and a field "
                   "behind them is not 0: set that field to 0, or use a newer Tutti",
                   name, size, tutti_version(), sizeof known);
  }
  return known;
}

/// Stores a copy of a text in *out. The caller frees it by tutti_free_text.
Status give_text(const std::string& text, char** out);

}  // namespace tutti::c
