// The reliable connection to one peer over unreliable datagrams: SEND, WRITE, WRITE with immediate,
// READ, and masked atomics, with the semantics of a verbs RC queue pair.
//
// A channel uses no sockets, clocks or threads: datagram payloads and instants go in, datagram
// payloads and completions come out. The caller verifies and removes the wire header, and calls
//   on_frame   for each datagram of this peer, then
//   next_frame until it returns false, sending each frame, and
//   on_timer   at next_deadline.
//
// Order: requests start and complete in the order posted. Messages and immediates arrive in order,
// after the data of every earlier WRITE. A READ sees every earlier WRITE. A later WRITE or atomic
// may overtake the READ, and a later WRITE may overtake an atomic, unless the poster awaits the
// completion of the READ or atomic first (in verbs: a fence).
// An atomic is executed once, after all earlier WRITEs and atomics, even if its request is
// retransmitted; retransmitted answers contain the same old value. An operation of zero bytes
// touches no memory, and its key is not checked.
//
// Memory: the buffer of a request must stay valid until the request completes or, if the request is
// unsignaled, until a later request completes. `post` copies SENDs of up to kInlineSendBytes. The
// answer to a READ is sent and retransmitted from the registered region; if the region is
// deregistered before the whole answer has arrived at the peer, the READ is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/rc/completion_queue.hpp"
#include "device/rc/memory_table.hpp"
#include "device/rc/rc_config.hpp"
#include "device/rc/rc_frame.hpp"
#include "device/rc/rc_frame_receiver.hpp"
#include "device/rc/rc_peer_timeout.hpp"
#include "device/rc/rc_response_queue.hpp"
#include "device/rc/rc_work_queue.hpp"
#include "device/rc/window/rc_send_window.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device::rc {

/// How many new frames a connection may send: frames of `more_bytes` bytes in all. The connection
/// may exceed this limit while fewer than `least_frames` frames are in flight.
struct Allowance {
  std::uint32_t least_frames = 4;
  std::uint64_t more_bytes = 0;
};

/// The unsent frames and the unfinished work of a connection.
struct Backlog {
  /// Highest priority of the work that is not completely cut into frames. All this work is sent at
  /// this priority, because the messages of a connection keep their order.
  Priority priority = Priority::normal;
  bool frames_wait = false;    ///< frames, new or lost, remain to be sent
  bool answers = false;        ///< answers to requests of the peer remain to be sent
  bool has_work = false;       ///< work of this side is not completed
  bool stores = false;         ///< a WRITE or atomic of this side is not completed
  bool window_closed = false;  ///< frames are ready, but the send window is full
};

/// The error of work that is posted to a peer that has closed the communicator and is gone.
Status closed_status(Rank peer);

class RcChannel {
 public:
  /// `memory` and `counters` must outlive the channel; `config` must be valid according to `check`.
  RcChannel(Rank peer, const RcConfig& config, const MemoryTable& memory, RcCounters& counters,
            const RcPosition& begin = {});
  RcChannel(const RcChannel&) = delete;
  RcChannel& operator=(const RcChannel&) = delete;

  /// Queues work. Fails if the request is invalid, such as a message that is too long
  /// (invalid_argument), if the queue is full (resource_exhausted), or if the channel has failed
  /// (aborted after `release`, otherwise peer_failed).
  Status post(Instant now, const WorkRequest& request);

  /// Handles a datagram from this peer; `bytes` begin after the wire header.
  void on_frame(Instant now, std::span<const std::byte> bytes, CompletionSink& sink);
  /// Fills in the next frame to send; false if there is none. Frames of bulk data have exactly
  /// max_frame_bytes, except the last of an operation.
  bool next_frame(Instant now, OutgoingFrame& frame);
  /// Takes back a frame that could not be sent: next_frame returns it again, and it does not count
  /// as lost. Must be called before the next on_* call; a frame that is not taken back counts as
  /// sent.
  void take_back(const OutgoingFrame& frame);
  /// True if next_frame would return a frame.
  bool has_output(Instant now) const;

  /// Returns true a few times before a silent peer is declared lost: the caller should then
  /// question other peers, to learn whether they hear this rank. `alone` states that no other peer
  /// has answered since this function first returned true; the failure then has Blame::either.
  bool on_timer(Instant now, CompletionSink& sink, bool alone = false);
  /// Time at which on_timer has something to do, or next_frame has a delayed ACK to send.
  Instant next_deadline() const;

  /// Limits the frames in flight until this function is called again; an empty value sets no limit.
  void hold_back(const std::optional<Allowance>& allowance);
  Backlog backlog() const;
  /// If `on`, the channel pings the peer while it is silent, and fails if the peer is silent for
  /// peer_timeout after a ping. Otherwise the channel does this only while something on this side
  /// waits for the peer.
  ///
  /// If the peer answers, but has not acknowledged the oldest frame for peer_timeout and many
  /// retransmissions, a `failure` completion with `undelivered_bytes` reports this once. The
  /// channel continues with short frames, and refuses READs of the peer with Code::peer_failed.
  void watch(bool on, Instant now);
  /// States that the peer needs nothing more and may be gone. From then on, only a WRITE, READ or
  /// atomic whose completion the poster may await makes the channel wait for the peer. After a few
  /// unanswered retransmissions the channel fails and completes all work with Code::aborted.
  void release() {
    released_ = true;
    send_.forget_timeouts();
  }
  /// True if work of this side is not completed, a frame is not acknowledged, or a ping is due.
  /// After `release`, only a WRITE, READ or atomic whose completion the poster may await counts.
  bool asks(Instant now) const;
  /// Restarts the peer timeout: earlier silence of the peer does not count, because this rank did
  /// not poll.
  void forgive_silence(Instant now) { peer_timeout_.begin(now); }
  /// From now on, work is cut into frames of at most `bytes` bytes. Never raises an earlier limit.
  void limit_frames(std::uint32_t bytes);
  /// Makes the channel send a frame of full length soon. Its loss reveals a path that loses long
  /// frames, even while no work needs long frames.
  void test_path() { path_test_wanted_ = true; }
  /// Declares the peer lost: pending requests complete with `code`, then one `failure` completion
  /// follows. From then on, frames of the peer are answered by frames with the flag `gave_up`.
  /// After `release`, requests complete with Code::aborted, no `failure` follows, and frames of the
  /// peer are answered by ACKs.
  void fail(Code code, CompletionSink& sink, Blame blame = Blame::peer);
  /// Releases the callers' memory: the posted work has no further effect (Endpoint::abandon).
  void abandon();
  /// Records a sign of life of the peer that arrived by other means than a frame of this channel.
  void on_heard(Instant now) { peer_timeout_.on_heard(now); }
  bool failed() const { return failed_; }
  /// Makes the channel send a question to the peer; the question does not start the peer timeout.
  void question() { ask_wanted_ = true; }
  const PeerTimeout& silence() const { return peer_timeout_; }
  /// True if a sign of life should be multicast: several retransmissions have brought no answer,
  /// and the oldest frame has waited for longer than a network delays frames. False once a failure
  /// is reported, because the peer would wait for ever for a rank that shows life but has given up.
  bool unanswered(Instant now) const {
    return !failed_ && !undelivered_ && !released_ &&
           send_.timeouts_in_a_row() >= kAskAfterTimeouts &&
           now - send_.oldest_since() >= config_.peer_timeout / kUnansweredPart;
  }
  bool watched() const { return watched_; }
  /// True if the channel may be closed: it has failed, or no ACK is owed and nothing is queued,
  /// unacknowledged or being answered. After `release`, only an owed ACK and a WRITE, READ or
  /// atomic whose completion the poster may await keep the channel open.
  bool quiet() const;
  /// The position from which another channel can continue later, if this channel is quiet and all
  /// operations of the peer are complete; otherwise nothing.
  std::optional<RcPosition> resting_position() const;
  /// True if this side needs an ACK of the peer: frames remain to be sent, or the poster may wait
  /// for a WRITE, READ or atomic to complete.
  bool awaits_peer() const;
  const SendWindow& window() const { return send_; }

 private:
  /// Number of timeouts in a row after which the channel also sends a short frame after each
  /// retransmission, to request an ACK. The ACK distinguishes a path that loses long frames from a
  /// silent peer.
  static constexpr std::uint32_t kAskAfterTimeouts = 3;
  static constexpr int kUnansweredPart = 20;
  /// Size in bytes of the longest frame that is sent twice as a tail probe. Sending a longer frame
  /// again would take more time than a tail probe saves on average.
  static constexpr std::size_t kRepeatedTailBytes = 2048;

  bool has_new_frame() const;
  bool choose_frame(Instant now, OutgoingFrame& frame);
  void cut_next(FrameRecord& record);
  void fill_sequenced(std::uint32_t sequence, OutgoingFrame& frame);
  void fill(std::uint32_t sequence, OutgoingFrame& frame);
  void fill_acknowledgement(OutgoingFrame& frame, bool ask);
  RcFrame new_frame(RcKind kind) const;
  void on_acknowledged(const FrameRecord& record);

  bool waiting() const;
  bool attentive() const { return watched_ || waiting(); }

  Rank peer_;
  RcConfig config_;
  RcCounters& counters_;
  bool failed_ = false;
  bool farewell_wanted_ = false;  ///< a frame that arrived after the failure needs an answer
  Blame blame_ = Blame::peer;     ///< rank at fault, once `failed_` is true

  WorkQueue works_;
  ResponseQueue responses_;
  SendWindow send_;
  FrameReceiver receiver_;

  /// True: the next new frame comes from responses_, unless responses_ is empty.
  bool response_turn_ = true;
  std::uint32_t since_ack_request_ = 0;  ///< frames sent since the last one that requested an ACK
  bool ask_wanted_ = false;              ///< true: a question waits to be sent
  std::optional<std::uint32_t> tail_to_probe_;

  bool path_test_wanted_ = false;
  /// Payload of path tests, allocated with the first test; empty after `abandon`.
  std::vector<std::byte> padding_;
  /// Size in bytes of the oldest unacknowledged frame when it was last sent.
  std::uint32_t oldest_frame_bytes_ = 0;
  bool undelivered_ = false;  ///< true once the loss of long frames has been reported

  /// Sequence number of the first frame after those that `abandon` has given up.
  std::optional<std::uint32_t> given_up_end_;

  bool watched_ = false;
  bool released_ = false;  ///< true: the peer needs nothing more and may be gone
  PeerTimeout peer_timeout_;
};

}  // namespace tutti::device::rc
