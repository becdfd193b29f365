// The port of a simulated host as the queues of one endpoint use it.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/device/nic_packet.hpp"
#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/time.hpp"
#include "sim/fabric/topology.hpp"
#include "tutti/units.hpp"
#include "wire/header.hpp"

namespace tutti::device::sim {

struct MulticastBurst;

/// Wakes the sleeping worker of a host when something arrives. The simulation of the hosts
/// implements this interface.
class HostWaker {
 public:
  virtual ~HostWaker() = default;
  /// `visible` is the instant from which the host can see the arrival. `chunk` is true if a
  /// multicast chunk arrived, and false for anything else; only the wake-up for a chunk may be
  /// delayed (completion moderation).
  virtual void wake(tutti::sim::HostId host, Instant visible, bool chunk) = 0;
};

/// The event kinds of the NICs. The event kinds of the simulation begin at kFirstWorldKind.
inline constexpr auto kNicTransmit = static_cast<tutti::sim::EventKind>(16);
inline constexpr auto kNicTimer = static_cast<tutti::sim::EventKind>(17);
inline constexpr auto kNicReplay = static_cast<tutti::sim::EventKind>(18);
inline constexpr auto kFirstWorldKind = static_cast<tutti::sim::EventKind>(24);

/// The ports of all hosts, as endpoints use them. Each function takes an endpoint's number in the
/// network.
class HostPorts {
 public:
  /// Gives a queue turns at its host's port until the queue has nothing to send.
  virtual void ready(std::uint32_t endpoint, std::uint32_t queue) = 0;
  /// Sends a multicast burst. Returns the instant at which its last bit leaves the host, or
  /// kForever if the instant is not known yet.
  virtual tutti::sim::Picoseconds multicast(std::uint32_t endpoint, const wire::Header& header,
                                            const MulticastBurst& burst) = 0;
  virtual void unicast(std::uint32_t endpoint, const NicPacket& packet) = 0;
  /// The host of a rank of the endpoint's communicator.
  virtual std::uint32_t host_of(std::uint32_t endpoint, Rank rank) const = 0;
  /// Must be called when an endpoint no longer exists.
  virtual void closed(std::uint32_t endpoint) = 0;

 protected:
  ~HostPorts() = default;
};

/// One endpoint's access to the network: the clock, a timer, the host's worker, and turns at the
/// host's port. Each queue waits for at most one turn at a time.
class NicPort {
 public:
  /// `endpoint` is the endpoint's number in the network. All referenced objects must outlive the
  /// port.
  NicPort(HostPorts& ports, tutti::sim::EventQueue& events, HostWaker& waker,
          std::uint32_t endpoint, std::uint32_t host)
      : ports_(&ports), events_(&events), waker_(&waker), endpoint_(endpoint), host_(host) {}

  std::uint32_t endpoint() const { return endpoint_; }
  std::uint32_t host() const { return host_; }
  Instant now() const { return tutti::sim::to_instant(events_->now()); }
  void wake(Instant visible, bool chunk) {
    waker_->wake(tutti::sim::HostId{host_}, visible, chunk);
  }
  void set_timer(Instant deadline) {
    events_->push({.time = tutti::sim::from_instant(deadline),
                   .key = event_key(kNicTimer, endpoint_),
                   .argument = 0});
  }

  /// Adds a queue, which gets the next number, counted from 0.
  void add_queue() { awaits_turn_.push_back(false); }
  /// Must be called when a queue has something to send; gives the queue turns at the host's port.
  void ready(std::uint32_t queue) {
    if (awaits_turn_[queue] || dead_) return;
    awaits_turn_[queue] = true;
    ports_->ready(endpoint_, queue);
  }
  /// Must be called when a queue has nothing left to send. The queue then gets no turn until the
  /// next ready().
  void drained(std::uint32_t queue) { awaits_turn_[queue] = false; }
  tutti::sim::Picoseconds multicast(const wire::Header& header, const MulticastBurst& burst) {
    return ports_->multicast(endpoint_, header, burst);
  }
  void unicast(const NicPacket& packet) { ports_->unicast(endpoint_, packet); }
  std::uint32_t host_of(Rank rank) const { return ports_->host_of(endpoint_, rank); }

  /// Whether the host has died, so that it sends and receives nothing.
  bool dead() const { return dead_; }
  void kill() { dead_ = true; }
  /// Must be called when the endpoint no longer exists.
  void close() { ports_->closed(endpoint_); }

 private:
  HostPorts* ports_;
  tutti::sim::EventQueue* events_;
  HostWaker* waker_;
  std::uint32_t endpoint_;
  std::uint32_t host_;
  bool dead_ = false;
  std::vector<bool> awaits_turn_;  ///< for each queue: whether it waits for a turn
};

}  // namespace tutti::device::sim
