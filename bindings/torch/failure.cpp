#include "failure.hpp"

#include <c10/util/Logging.h>

#include "group.hpp"

namespace tutti::torch_backend {

Failure last_failure(tutti_status_t status) {
  Failure failure{status, {}, {}};
  if (status == TUTTI_OK) return failure;
  failure.message = tutti_last_error();
  failure.ranks.resize(tutti_last_error_ranks(nullptr, 0));
  tutti_last_error_ranks(failure.ranks.data(), failure.ranks.size());
  return failure;
}

std::exception_ptr backend_error(const std::string& message) {
  try {
    C10_THROW_ERROR(DistBackendError, message);
  } catch (...) {
    return std::current_exception();
  }
}

std::exception_ptr error_of(const Group& group, const std::string& what, const Failure& failure) {
  std::string text =
      c10::str("Tutti: ", what, " of group '", group.name, "' failed at rank ", group.rank, " (",
               tutti_status_string(failure.status), "): ", failure.message);
  if (!failure.ranks.empty()) text += "; at fault: " + name_ranks(group, failure.ranks);
  return backend_error(text);
}

void log_exception(const char* what) noexcept {
  try {
    try {
      throw;
    } catch (const std::exception& error) {
      LOG(ERROR) << "Tutti: " << what << ": " << error.what();
    }
  } catch (...) {
  }
}

}  // namespace tutti::torch_backend
