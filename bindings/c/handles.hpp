// The contents of the C interface's opaque handles.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "tutti/communicator.hpp"
#include "tutti/tutti.h"

namespace tutti::c {

/// An Allgather for a duplicate's bootstrap. Its buffers must live as long as the collective may
/// write.
struct Exchange {
  std::vector<std::byte> own;
  std::vector<std::byte> all;
  Request request;
};

}  // namespace tutti::c

struct tutti_comm {
  explicit tutti_comm(tutti::Communicator one)
      : communicator(std::make_shared<tutti::Communicator>(std::move(one))) {}

  std::mutex mutex;  ///< guards `abandoned`
  std::vector<std::shared_ptr<tutti::c::Exchange>>
      abandoned;  ///< exchanges that timed out and still run
  std::shared_ptr<tutti::Communicator> communicator;
};

struct tutti_request {
  std::shared_ptr<tutti::Communicator> communicator;
  tutti::Request request;
  bool has_callback = false;
};
