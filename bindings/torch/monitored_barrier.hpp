// A barrier that fails if ranks are absent; the error at rank 0 names the absent ranks.
#pragma once

#include <tutti/tutti.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "deadline.hpp"
#include "group.hpp"

namespace tutti::torch_backend {

class MonitoredBarrier {
 public:
  MonitoredBarrier(std::shared_ptr<Group> group, std::uint64_t number,
                   std::chrono::milliseconds timeout, bool wait_for_all);

  /// Blocks until all ranks have called the barrier. Throws an error that names absent ranks.
  void run(tutti_comm_t* comm) const;
  /// The longest time that run() takes.
  std::chrono::milliseconds longest() const;

 private:
  void run_as_first(tutti_comm_t* comm) const;
  void run_as_other(tutti_comm_t* comm) const;
  /// Waits until the deadline for an empty message from rank `from`, and returns whether the
  /// message arrived.
  bool receive(tutti_comm_t* comm, std::uint32_t from, Clock::time_point deadline) const;
  void send(tutti_comm_t* comm, std::uint32_t to) const;
  [[noreturn]] void fail(const std::vector<std::uint32_t>& absent) const;

  std::shared_ptr<Group> group_;
  std::uint64_t tag_;
  std::chrono::milliseconds timeout_;
  bool wait_for_all_;
};

}  // namespace tutti::torch_backend
