// The receive workers of all ranks in a simulation. Each is a thread of its own in virtual time,
// whose polls take a random time, so that workers and owners do their steps in any order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/receive/receive_team.hpp"
#include "sim/fabric/event_queue.hpp"
#include "sim/simulation/config.hpp"
#include "tutti/units.hpp"

namespace tutti::simulation {

class ReceiveWorkers {
 public:
  /// Each wake-up of a worker is an event of `kind` in `queue`. `queue` and `model` must outlive
  /// this object.
  ReceiveWorkers(sim::EventQueue& queue, sim::EventKind kind, const HostModel& model,
                 std::uint64_t seed)
      : queue_(queue), kind_(kind), model_(model), seed_(seed) {}

  /// Adds the receive workers of one rank. They call `wake_owner` when they have received something
  /// that the owner, the thread of the rank's engine, must process.
  void add(std::uint32_t host, engine::ReceiveTeam& team, std::function<void()> wake_owner);
  std::uint32_t host_of(std::uint32_t worker) const { return workers_[worker].host; }
  /// Wakes all workers of a host at `when`.
  void wake(std::uint32_t host, Instant when);
  /// Handles the wake-up of a worker. If its host is paused, the worker wakes again at
  /// `paused_until`.
  void work(std::uint32_t worker, Instant paused_until);

 private:
  struct Thread {
    std::uint32_t host = 0;
    engine::ReceiveWorker* worker = nullptr;
    Instant busy_until{};
    Instant wake_at = kNever;
    std::uint64_t polls = 0;
  };

  void schedule(std::uint32_t worker, Instant when);
  Nanoseconds cost_of(std::uint32_t worker, std::uint64_t chunks);

  sim::EventQueue& queue_;
  sim::EventKind kind_;
  const HostModel& model_;
  std::uint64_t seed_;
  std::vector<Thread> workers_;
};

}  // namespace tutti::simulation
