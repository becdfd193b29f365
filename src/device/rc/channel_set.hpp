// The reliable connections of one endpoint: one channel for each peer, created on first use, with
// the shared configuration, memory table and counters.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "device/rc/completion_queue.hpp"
#include "device/rc/memory_table.hpp"
#include "device/rc/rc_channel.hpp"

namespace tutti::device::rc {

class ChannelSet {
 public:
  /// The connections of rank `me` to every other of the `ranks` ranks.
  ChannelSet(Rank me, std::uint32_t ranks) : me_(me), peers_(ranks) {}

  /// Checks `config` and uses it for the channels that are created from now on.
  Status configure(const RcConfig& config);
  const RcConfig& config() const { return config_; }
  /// Sets the incarnation that frames of this peer must carry; must be called before the peer's
  /// channel is used.
  void set_incarnation(Rank peer, std::uint32_t incarnation) {
    peers_[index(peer)].incarnation = incarnation;
  }

  RcChannel& operator[](Rank peer);
  /// The channel to a peer, which must exist already.
  const RcChannel& at(Rank peer) const { return *peers_[index(peer)].channel; }
  /// The peers that have a channel, in the order of first use.
  const std::vector<Rank>& open() const { return open_; }
  MemoryTable& memory() { return memory_; }

  /// Calls the timers of all channels. If this side has not polled for long, because its process was
  /// stopped or not scheduled, no peer is judged by the silence of that time.
  void on_timers(Instant now, CompletionSink& sink);

  /// Records that a peer was heard by multicast.
  void on_heard(Rank peer, Instant now);
  /// Takes the wish to multicast a sign of life, and returns whether there was one: a peer does not
  /// answer, perhaps because this rank cannot reach it by unicast. At most one in kSignInterval.
  bool take_sign_of_life(Instant now);

  /// These do what the functions with the same names in Endpoint do.
  Status post(Instant now, const WorkRequest& request);
  void abandon();
  bool quiet() const;
  Instant next_deadline() const;
  /// Adds the counts of all channels to `counters`.
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
  Instant last_poll_{0};
  Instant next_sign_{0};
  bool sign_wanted_ = false;
};

}  // namespace tutti::device::rc
