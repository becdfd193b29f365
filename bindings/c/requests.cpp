// Requests of the C interface.
#include <algorithm>
#include <cstring>
#include <vector>

#include "handles.hpp"
#include "support.hpp"

namespace tutti::c {
namespace {

Result<Nanoseconds> timeout_of(const char* function, int64_t timeout_ns) {
  if (timeout_ns >= 0) return Nanoseconds(timeout_ns);
  return failure(Code::invalid_argument, "{}: timeout_ns {} is negative: use 0 or more", function,
                 timeout_ns);
}

/// The requests to which an array of handles refers; a handle that is NULL gives an empty request.
Result<std::vector<Request>> list_of(const char* function, tutti_request_t* const* requests,
                                     size_t count) {
  if (requests == nullptr && count > 0) return null_argument(function, "requests");
  std::vector<Request> list(count);
  for (size_t i = 0; i < count; ++i)
    if (requests[i] != nullptr) list[i] = requests[i]->request;
  return list;
}

}  // namespace
}  // namespace tutti::c

using tutti::Code;
using tutti::Request;
using tutti::Status;
using tutti::c::guarded;
using tutti::c::null_argument;

tutti_status_t tutti_request_test(tutti_request_t* request, int* done) {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_request_test", "request");
    if (done == nullptr) return null_argument("tutti_request_test", "done");
    *done = request->request.test() ? 1 : 0;
    return *done != 0 ? request->request.wait() : Status();
  });
}

tutti_status_t tutti_request_wait(tutti_request_t* request) {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_request_wait", "request");
    return request->request.wait();
  });
}

tutti_status_t tutti_request_wait_for(tutti_request_t* request, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_request_wait_for", "request");
    const auto timeout = tutti::c::timeout_of("tutti_request_wait_for", timeout_ns);
    return timeout ? request->request.wait_for(*timeout) : timeout.status();
  });
}

tutti_status_t tutti_request_wait_all(tutti_request_t* const* requests, size_t count,
                                      int64_t timeout_ns) {
  return guarded([&]() -> Status {
    auto list = tutti::c::list_of("tutti_request_wait_all", requests, count);
    if (!list) return list.status();
    const auto timeout = tutti::c::timeout_of("tutti_request_wait_all", timeout_ns);
    return timeout ? Request::wait_all(*list, *timeout) : timeout.status();
  });
}

tutti_status_t tutti_request_wait_any(tutti_request_t* const* requests, size_t count,
                                      int64_t timeout_ns, size_t* index) {
  return guarded([&]() -> Status {
    if (index == nullptr) return null_argument("tutti_request_wait_any", "index");
    auto list = tutti::c::list_of("tutti_request_wait_any", requests, count);
    if (!list) return list.status();
    const auto timeout = tutti::c::timeout_of("tutti_request_wait_any", timeout_ns);
    if (!timeout) return timeout.status();
    const auto done = Request::wait_any(*list, *timeout);
    if (done) *index = *done;
    return done.status();
  });
}

tutti_status_t tutti_request_progress(const tutti_request_t* request, tutti_progress_t* progress) {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_request_progress", "request");
    if (progress == nullptr) return null_argument("tutti_request_progress", "progress");
    const size_t size = progress->size;
    if (size < sizeof size) {
      return tutti::failure(Code::invalid_argument,
                            "tutti_progress_t.size is {}: set it to sizeof(tutti_progress_t)",
                            size);
    }
    const tutti::ProgressReport report = request->request.progress();
    const tutti_progress_t known{size, report.chunks_present, report.chunks_total,
                                 report.done ? 1u : 0u};
    std::memcpy(progress, &known, std::min(size, sizeof known));
    return {};
  });
}

tutti_status_t tutti_request_set_callback(tutti_request_t* request, tutti_completion_fn callback,
                                          void* context) {
  bool begun = false;
  const tutti_status_t status = guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_request_set_callback", "request");
    if (callback == nullptr) return null_argument("tutti_request_set_callback", "callback");
    if (request->has_callback) {
      return tutti::failure(Code::invalid_argument,
                            "this request already has a callback: set only one for each request");
    }
    request->has_callback = begun = true;  // the callback may run before on_completion() returns
    return request->communicator->on_completion(
        request->request, [callback, context](const Status& end) {
          callback(static_cast<tutti_status_t>(end.code()), end.message().c_str(), context);
        });
  });
  if (begun && status != TUTTI_OK) request->has_callback = false;
  return status;
}

void tutti_request_free(tutti_request_t* request) { delete request; }
