// The reliable connections of one endpoint: one channel for each peer, created on first use, with
// the shared configuration, memory table and counters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/rc/completion_queue.hpp"
#include "device/rc/memory_table.hpp"
#include "device/rc/rc_channel.hpp"

namespace tutti::device::rc {

/// Sends and receives the frames of an endpoint's connections; each device has its own
/// implementation.
class FrameSocket {
 public:
  virtual ~FrameSocket() = default;
  /// Hands a bounded number of received frames to the channels. Returns true if more may wait.
  virtual bool receive(Instant now) = 0;
  /// Sends the frames of one channel until it has no more; returns false if the send queue is full.
  /// A frame for which the queue has no room is given back to the channel by RcChannel::take_back.
  virtual bool send(Instant now, Rank peer, RcChannel& channel) = 0;
  /// Multicasts a sign of life to all peers, because unicast may not reach them.
  virtual void send_sign_of_life() {}
  /// Does the same as Endpoint::probe_path. A peer whose frame was dropped gets a probe, because
  /// without a sign of life it would declare this rank dead.
  virtual void probe_path(Rank /*peer*/, std::uint32_t /*bytes*/) {}
};

/// Limits the frames of connections, so that data of a higher egress priority is sent first.
class FrameGate {
 public:
  virtual ~FrameGate() = default;
  /// Returns the limit of the frames in flight for a connection that has `backlog` to send. An
  /// empty value sets no limit.
  virtual std::optional<Allowance> allowance(const Backlog& backlog, Instant now) = 0;
};

class ChannelSet {
 public:
  /// The connections of rank `me` to every other of the `ranks` ranks.
  ChannelSet(Rank me, std::uint32_t ranks) : me_(me), peers_(ranks) {}

  /// Checks `config` and uses it for the channels that are created from now on.
  Status configure(const RcConfig& config);
  const RcConfig& config() const { return config_; }
  /// Limits the size of frames to `bytes` bytes, which must be equal at all ranks.
  void limit_frames(std::uint32_t bytes);
  /// Sets the incarnation that frames of this peer must carry; must be called before the peer's
  /// channel is used.
  void set_incarnation(Rank peer, std::uint32_t incarnation) {
    peers_[index(peer)].incarnation = incarnation;
  }

  /// Limits the number of connections and their idle time; must be called before the first
  /// connection is made. A closed connection continues from stored sequence numbers when it is next
  /// used, without a handshake.
  void limit_connections(const ConnectionLimits& limits) { limits_ = limits; }
  /// Returns the channel to a peer and makes it if necessary, even beyond the connection limit.
  RcChannel& operator[](Rank peer);
  /// The channel to a peer; the channel must exist already.
  const RcChannel& at(Rank peer) const { return *peers_[index(peer)].channel; }
  /// The peers that have a channel, in the order in which the channels were made.
  const std::vector<Rank>& open() const { return open_; }
  MemoryTable& memory() { return memory_; }

  /// Serves all channels: sends work posted since the last poll, receives at most kMaxReceives
  /// times, then does what `poll_posted` does. Timers run after the receives, because a peer must
  /// not be declared lost before its frames are read.
  void poll(Instant now, FrameSocket& socket, CompletionSink& sink);
  /// Runs the timers of all channels and sends their frames, in order of priority. Multicasts a
  /// sign of life if a peer does not answer, because unicast may not reach it, and answers dropped
  /// frames by probes. If this process has not polled for long, the silence of the peers in that
  /// time does not count.
  void poll_posted(Instant now, FrameSocket& socket, CompletionSink& sink);
  /// Sets the gate that limits the frames of all channels; it must outlive this object.
  void use_gate(FrameGate& gate) { gate_ = &gate; }
  /// The highest priority of the frames that the last poll could not send because the send queue or
  /// the window was full; nothing if no frame waits.
  std::optional<Priority> waiting() const { return waiting_; }
  /// True if the send queue was full at the last poll.
  bool send_queue_full() const { return send_queue_full_; }

  /// Hands a frame of a peer to its channel; `bytes` begin after the wire header. If no connection
  /// to the peer can be opened, the frame is dropped, and the peer retransmits it.
  void on_frame(Instant now, Rank source, std::span<const std::byte> bytes, CompletionSink& sink);
  /// Reports a peer's probe to `sink`; the probe is a sign of life, too.
  void on_probe(Instant now, const Completion& probe, CompletionSink& sink);

  /// The functions from `post` to `next_deadline` do the same as the functions of Endpoint with
  /// these names. `post` also fails with resource_exhausted while all connections for the work of
  /// this rank are in use.
  Status post(Instant now, const WorkRequest& request);
  void watch(Instant now, Rank peer, bool on);
  void release_peer(Rank peer);
  void test_path(Rank peer);
  void abandon();
  bool quiet() const;
  /// True if work was posted after the last transmission.
  bool untransmitted() const { return untransmitted_; }
  Instant next_deadline() const;
  /// Adds the counts of all channels to `counters`.
  void add_to(EndpointCounters& counters) const;

 private:
  /// One poll calls FrameSocket::receive at most this many times, so that a flood of datagrams
  /// cannot keep the caller busy.
  static constexpr int kMaxReceives = 8;

  void on_timers(Instant now, CompletionSink& sink);
  bool alone(const RcChannel& silent) const;
  /// Questions the few ranks after this one, to learn whether they still receive this rank's
  /// packets.
  void question_witnesses(Instant now);
  void question_silent(Instant now);
  /// The point in a poll at which frames are sent. A connection that the gate limits sends only
  /// after the receives, because its Allowance may be used only once per poll.
  enum class Turn { before_receives, after_receives };
  void transmit(Instant now, FrameSocket& socket, Turn turn);
  bool transmit(Instant now, FrameSocket& socket, Turn turn, Priority priority);

  struct Peer {
    std::uint32_t incarnation = 0;
    bool watched = false;
    bool released = false;
    std::unique_ptr<RcChannel> channel;
    RcPosition position{};  ///< sequence numbers from which a closed connection continues
    Instant used{};         ///< instant at which the connection was last used
    /// Time of the peer's last answer on a connection that is closed now.
    Instant answered{INT64_MIN};
    /// Time of the next ping to a watched peer whose connection is closed.
    Instant ping_at = kNever;
    /// Time from which a dropped frame of the peer is answered again.
    Instant next_probe{INT64_MIN};
  };

  bool limited() const { return limits_.most > 0; }
  RcChannel* open(Instant now, Rank peer);
  bool make_room();
  bool close(Rank peer);
  /// At most this many connections may carry work or pings of this rank at a time. The other
  /// connections serve frames that come from peers.
  std::uint32_t work_limit() const { return std::max(1u, limits_.most / 2); }
  bool may_ask_another(Instant now) const;
  RcChannel* channel_for_work(Instant now, Rank rank);
  void serve_closed(Instant now);

  Rank me_;
  RcConfig config_;
  ConnectionLimits limits_;
  RcCounters counters_;
  MemoryTable memory_;
  std::vector<Peer> peers_;
  std::vector<Rank> open_;
  std::vector<Rank> dropped_;  ///< peers whose dropped frames this poll answers
  FrameGate* gate_ = nullptr;
  Instant last_poll_{0};
  Instant next_sign_{0};
  bool sign_wanted_ = false;
  bool send_queue_full_ = false;
  bool untransmitted_ = false;  ///< true: work was posted after the last transmission
  bool prioritised_ = false;    ///< true once work with a priority other than normal was posted
  bool held_back_ = false;      ///< true: the gate held frames back at the last poll
  std::optional<Priority> waiting_;
};

}  // namespace tutti::device::rc
