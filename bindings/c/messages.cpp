// The C interface of messages from rank to rank.
#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "handles.hpp"
#include "support.hpp"

namespace tutti::c {
namespace {

/// Fails if `comm` is NULL, or if `buffer` is NULL although `bytes` is not 0.
Status check(const char* function, const tutti_comm_t* comm, const char* name, const void* buffer,
             size_t bytes) {
  if (comm == nullptr) return null_argument(function, "comm");
  if (buffer == nullptr && bytes > 0) return null_argument(function, name);
  return {};
}

Result<Request> send(const char* function, tutti_comm_t* comm, const void* message, size_t bytes,
                     uint32_t to, uint64_t tag, bool will_wait) {
  if (Status status = check(function, comm, "message", message, bytes); !status) return status;
  return comm->communicator->send({static_cast<const std::byte*>(message), bytes}, rank_of(to), tag,
                                  {.will_wait = will_wait});
}

Result<Request> receive(const char* function, tutti_comm_t* comm, void* buffer, size_t capacity,
                        uint32_t from, uint64_t tag, uint64_t mask, bool will_wait) {
  if (Status status = check(function, comm, "buffer", buffer, capacity); !status) return status;
  return comm->communicator->receive({static_cast<std::byte*>(buffer), capacity}, rank_of(from),
                                     tag, {.tag_mask = mask, .will_wait = will_wait});
}

/// Starts a nonblocking call and stores its request in *out.
template <typename Start>
tutti_status_t launch(const char* function, tutti_comm_t* comm, tutti_request_t** out,
                      const Start& start) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument(function, "comm");
    if (out == nullptr) return null_argument(function, "request");
    return store_request(comm->communicator, out, start);
  });
}

Status give_message(const Request& request, tutti_message_t* message) {
  const size_t size = message->size;
  if (size < sizeof size) {
    return failure(Code::invalid_argument,
                   "tutti_message_t.size is {}: set it to sizeof(tutti_message_t)", size);
  }
  const MessageInfo info = request.message();
  const tutti_message_t known{size, index(info.source), info.tag, info.bytes};
  std::memcpy(message, &known, std::min(size, sizeof known));
  return {};
}

}  // namespace
}  // namespace tutti::c

using tutti::Status;
using tutti::c::guarded;
using tutti::c::null_argument;

tutti_status_t tutti_send(tutti_comm_t* comm, const void* message, size_t bytes, uint32_t to,
                          uint64_t tag) {
  return guarded([&]() -> Status {
    auto request = tutti::c::send("tutti_send", comm, message, bytes, to, tag, true);
    return request ? request->wait() : request.status();
  });
}

tutti_status_t tutti_isend(tutti_comm_t* comm, const void* message, size_t bytes, uint32_t to,
                           uint64_t tag, tutti_request_t** request) {
  return tutti::c::launch("tutti_isend", comm, request, [&] {
    return tutti::c::send("tutti_isend", comm, message, bytes, to, tag, false);
  });
}

tutti_status_t tutti_recv(tutti_comm_t* comm, void* buffer, size_t capacity, uint32_t from,
                          uint64_t tag, uint64_t tag_mask, tutti_message_t* message) {
  return guarded([&]() -> Status {
    auto request =
        tutti::c::receive("tutti_recv", comm, buffer, capacity, from, tag, tag_mask, true);
    if (!request) return request.status();
    const Status status = request->wait();
    if (message == nullptr) return status;
    const Status given = tutti::c::give_message(*request, message);
    return status.ok() ? given : status;
  });
}

tutti_status_t tutti_irecv(tutti_comm_t* comm, void* buffer, size_t capacity, uint32_t from,
                           uint64_t tag, uint64_t tag_mask, tutti_request_t** request) {
  return tutti::c::launch("tutti_irecv", comm, request, [&] {
    return tutti::c::receive("tutti_irecv", comm, buffer, capacity, from, tag, tag_mask, false);
  });
}

tutti_status_t tutti_request_cancel(tutti_request_t* request) {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_request_cancel", "request");
    return request->request.cancel();
  });
}

tutti_status_t tutti_request_message(const tutti_request_t* request, tutti_message_t* message) {
  return guarded([&]() -> Status {
    if (request == nullptr) return null_argument("tutti_request_message", "request");
    if (message == nullptr) return null_argument("tutti_request_message", "message");
    return tutti::c::give_message(request->request, message);
  });
}
