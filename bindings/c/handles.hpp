// The structures to which the opaque handles of the C interface point.
#pragma once

#include <memory>

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
