// The communicator of libtutti that carries out a group's operations.
#pragma once

#include <tutti/tutti.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "failure.hpp"
#include "group.hpp"
#include "store_exchange.hpp"

namespace tutti::torch_backend {

class Communicator {
 public:
  /// Waits for the other ranks at the store and creates the communicator with them; blocks. Throws
  /// an error that names the absent ranks.
  static std::unique_ptr<Communicator> create(std::shared_ptr<Group> group,
                                              StoreExchange& exchange);
  Communicator(std::shared_ptr<Group> group, tutti_comm_t* comm);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  tutti_comm_t* get() const { return comm_; }
  void abort(const char* reason);
  /// Ends the communicator. Waits up to `patience` for calls in flight and for peers that still
  /// need data from this rank.
  void finalize(std::chrono::milliseconds patience);
  Failure status() const;
  std::vector<std::pair<std::string, std::uint64_t>> counters() const;

 private:
  std::shared_ptr<Group> group_;
  tutti_comm_t* comm_;
  bool finalized_ = false;
};

}  // namespace tutti::torch_backend
