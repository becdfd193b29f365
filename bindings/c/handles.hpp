// The structures to which the opaque handles of the C interface point.
#pragma once

#include <memory>
#include <utility>

#include "tutti/communicator.hpp"
#include "tutti/tutti.h"

struct tutti_comm {
  explicit tutti_comm(tutti::Communicator one)
      : communicator(std::make_shared<tutti::Communicator>(std::move(one))) {}

  std::shared_ptr<tutti::Communicator> communicator;
};

struct tutti_request {
  std::shared_ptr<tutti::Communicator> communicator;
  tutti::Request request;
  bool has_callback = false;
};

struct tutti_prepared {
  // Keeps the communicator alive while `prepared` exists.
  std::shared_ptr<tutti::Communicator> communicator;
  tutti::Prepared prepared;
};

namespace tutti::c {

/// Calls `start`, which starts a call on the communicator `of`, and stores the request of this call
/// in *out.
template <typename Start>
Status store_request(const std::shared_ptr<Communicator>& of, tutti_request_t** out,
                     const Start& start) {
  // The handle is allocated first, because nothing may fail once the call has started.
  auto handle = std::make_unique<tutti_request>();
  handle->communicator = of;
  auto request = start();
  if (!request) return request.status();
  handle->request = std::move(*request);
  *out = handle.release();
  return {};
}

}  // namespace tutti::c
