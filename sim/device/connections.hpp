// The reliable connections of a simulated endpoint, as the endpoint uses them. Depending on
// NicSettings, the NIC runs the connections (ConnectionSet) or the software of the host does
// (SoftwareConnections).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/device.hpp"
#include "sim/device/nic_packet.hpp"

namespace tutti::device::sim {

class Connections {
 public:
  virtual ~Connections() = default;

  // The functions below do the same as the functions of Endpoint with the same names.
  virtual Status use_secret(std::span<const std::byte>) { return {}; }
  virtual Status post(Instant now, const WorkRequest& request) = 0;
  virtual std::size_t poll(Instant now, std::span<Completion> completions) = 0;
  virtual std::size_t poll_posted(Instant now, std::span<Completion> completions) {
    return poll(now, completions);
  }
  virtual void watch(Rank peer, bool on) = 0;
  virtual void release_peer(Rank) {}
  virtual void test_path(Rank) {}
  virtual void abandon() = 0;
  virtual bool quiet() const = 0;
  virtual Instant next_deadline() const = 0;
  virtual Result<MemoryKey> register_memory(std::span<std::byte> memory) = 0;
  virtual void deregister_memory(MemoryKey key) = 0;
  virtual void use_matcher(MessageMatcher* matcher) = 0;
  virtual std::size_t max_message_bytes() const = 0;

  /// Receives a packet and takes over the packet's reference to its payload.
  virtual void on_packet(const NicPacket& packet) = 0;
  /// Receives a membership probe that was multicast.
  virtual void on_probe(Rank source, std::uint32_t subgroup) = 0;
  /// Sends up to one burst of the queue with index `at`. Returns whether this queue has more to
  /// send.
  virtual bool transmit(std::uint32_t at) = 0;
  virtual void on_timer() {}
  /// The instant from which the host can see the first completion or packet; kNever if there is
  /// neither.
  virtual Instant next_visible() const = 0;
  virtual void add_to(EndpointCounters&) const {}
  /// Releases all payloads.
  virtual void clear() = 0;
};

}  // namespace tutti::device::sim
