// Converts failures of libtutti and of the adapter to the exceptions that torch expects.
#pragma once

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <tutti/tutti.h>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace tutti::torch_backend {

struct Group;

/// A failed call of libtutti: its status, its message and the ranks at fault.
struct Failure {
  tutti_status_t status = TUTTI_OK;
  std::string message;
  std::vector<std::uint32_t> ranks;

  explicit operator bool() const { return status != TUTTI_OK; }
};

/// The failure of the call of libtutti that has just returned `status` in this thread.
Failure last_failure(tutti_status_t status);

/// The exception that torch translates to torch.distributed.DistBackendError.
std::exception_ptr backend_error(const std::string& message);

/// The error of a failed operation, such as "Tutti: all_reduce number 7 of group 'x' failed at rank
/// 0 ...", with the ranks at fault.
std::exception_ptr error_of(const Group& group, const std::string& what, const Failure& failure);

/// Logs the exception that is being handled, as "Tutti: WHAT: TEXT". If memory is too short for the
/// entry, the entry is lost.
void log_exception(const char* what) noexcept;

/// Throws an error that says why arguments cannot be used.
template <typename... Parts>
[[noreturn]] void raise(const Parts&... parts) {
  C10_THROW_ERROR(ValueError, c10::str("Tutti: ", parts...));
}

}  // namespace tutti::torch_backend
