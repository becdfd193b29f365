#include "sim/simulation/ranks/receive_workers.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "sim/device/nic_port.hpp"

namespace tutti::simulation {

namespace {

// Lower bound of the jitter of a worker. The random extra time of a poll is at most this time or,
// if that is longer, the jitter of the host model.
constexpr Nanoseconds kMinJitter{2'000};

}  // namespace

void ReceiveWorkers::add(std::uint32_t host, engine::ReceiveTeam& team,
                         std::function<void()> wake_owner) {
  team.on_news(std::move(wake_owner));
  for (std::uint32_t w = 0; w < team.size(); ++w) {
    const auto at = static_cast<std::uint32_t>(workers_.size());
    workers_.push_back({.host = host, .worker = &team.worker(w)});
    team.worker(w).on_rouse([this, at] { schedule(at, sim::to_instant(queue_.now())); });
  }
}

void ReceiveWorkers::wake(std::uint32_t host, Instant when) {
  for (std::uint32_t at = 0; at < workers_.size(); ++at) {
    if (workers_[at].host == host) schedule(at, when);
  }
}

void ReceiveWorkers::schedule(std::uint32_t worker, Instant when) {
  Thread& one = workers_[worker];
  when = std::max({when, one.busy_until, sim::to_instant(queue_.now())});
  if (when >= one.wake_at) return;
  one.wake_at = when;
  queue_.push(
      {.time = sim::from_instant(when), .key = sim::event_key(kind_, worker), .argument = 0});
}

void ReceiveWorkers::work(std::uint32_t worker, Instant paused_until) {
  Thread& one = workers_[worker];
  const Instant now = sim::to_instant(queue_.now());
  // An earlier wake-up replaces a later one. The event of the replaced wake-up stays in the queue
  // and must have no effect.
  if (one.wake_at != now) return;
  one.wake_at = kNever;
  if (now < paused_until) return schedule(worker, paused_until);
  const std::uint64_t before = one.worker->counters().received.value();
  const bool worked = one.worker->poll(now);
  one.busy_until = now + cost_of(worker, one.worker->counters().received.value() - before);
  const Instant next = one.worker->next_deadline();
  if (worked || one.worker->due()) {
    schedule(worker, one.busy_until);
  } else if (next != kNever) {
    schedule(worker, next);
  }
}

Nanoseconds ReceiveWorkers::cost_of(std::uint32_t worker, std::uint64_t chunks) {
  const auto most = static_cast<std::uint64_t>(std::max(model_.jitter, kMinJitter).count());
  const std::uint64_t jitter = draw(seed_, worker, workers_[worker].polls++) % (most + 1);
  return std::max(model_.poll + model_.chunk * static_cast<std::int64_t>(chunks) +
                      Nanoseconds(static_cast<std::int64_t>(jitter)),
                  Nanoseconds(1));
}

}  // namespace tutti::simulation
