// The reliable connections of one endpoint: a channel a peer, made when it is first used, and what
// they have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "device/rc/memory_table.hpp"
#include "device/rc/rc_channel.hpp"

namespace tutti::device::rc {

class ChannelSet {
 public:
  /// Of rank `me` among `ranks`.
  ChannelSet(Rank me, std::uint32_t ranks) : me_(me), peers_(ranks) {}

  /// For channels made from here on.
  Status configure(const RcConfig& config);
  const RcConfig& config() const { return config_; }
  /// Tells a peer's earlier lives apart; before its channel is used.
  void set_incarnation(Rank peer, std::uint32_t incarnation) {
    peers_[index(peer)].incarnation = incarnation;
  }

  RcChannel& operator[](Rank peer);
  /// One that has been made.
  const RcChannel& at(Rank peer) const { return *peers_[index(peer)].channel; }
  /// The peers that have a channel, in the order of their first use.
  const std::vector<Rank>& open() const { return open_; }
  MemoryTable& memory() { return memory_; }

  /// As Endpoint's functions of these names.
  Status post(Instant now, const WorkRequest& request);
  void abandon();
  bool quiet() const;
  Instant next_deadline() const;
  /// Adds what the channels have counted.
  void add_to(EndpointCounters& counters) const;

 private:
  struct Peer {
    std::uint32_t incarnation = 0;
    std::unique_ptr<RcChannel> channel;
  };

  Rank me_;
  RcConfig config_;
  RcCounters counters_;
  MemoryTable memory_;
  std::vector<Peer> peers_;
  std::vector<Rank> open_;
};

}  // namespace tutti::device::rc
