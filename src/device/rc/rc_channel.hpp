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
// after the data of every earlier WRITE. A READ sees every earlier WRITE. A later WRITE may
// overtake the READ unless the READ's completion is awaited (verbs: the fence), and so may a later
// atomic. An atomic is executed once, after all earlier WRITEs and atomics, even if its request is
// retransmitted; its answer is the first one. An operation of zero bytes touches no memory, and its
// key is not checked.
//
// Memory: the buffer of a request must stay valid until the request completes or, if the request is
// unsignaled, until a later request completes. `post` copies SENDs of up to kInlineSendBytes. The
// answer to a READ is sent and retransmitted from the registered region; deregistering the region
// refuses the READ.
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

/// The frames that a connection may have in flight: `least_frames`, or those in flight and
/// `more_bytes`.
struct Allowance {
  std::uint32_t least_frames = 4;
  std::uint64_t more_bytes = 0;
};

/// The frames that a connection has to send.
struct Backlog {
  /// Highest priority of the work that is not completely cut into frames. Messages of one connection
  /// keep their order, so all of it goes at this priority.
  Priority priority = Priority::normal;
  bool frames_wait = false;    ///< the window is full, or the frames are held back
  bool answers = false;        ///< some of them answer a READ of the peer
  bool has_work = false;       ///< work of this side is not completed
  bool window_closed = false;  ///< frames are ready, and only the window keeps them
};

class RcChannel {
 public:
  /// `memory` and `counters` must outlive the channel; `config` must be valid according to `check`.
  RcChannel(Rank peer, const RcConfig& config, const MemoryTable& memory, RcCounters& counters,
            const RcPosition& begin = {});
  RcChannel(const RcChannel&) = delete;
  RcChannel& operator=(const RcChannel&) = delete;

  /// Queues work. Fails for a message that is too long or an opcode that cannot be posted
  /// (invalid_argument), a full queue (resource_exhausted) or a failed channel (peer_failed).
  Status post(Instant now, const WorkRequest& request);

  /// Handles a datagram from this peer; `bytes` begin after the wire header.
  void on_frame(Instant now, std::span<const std::byte> bytes, CompletionSink& sink);
  /// Fills in the next datagram to send; false if nothing is to be sent. Frames of bulk data have
  /// exactly max_frame_bytes, except the last of an operation.
  bool next_frame(Instant now, OutgoingFrame& frame);
  /// Takes a frame back that could not be sent: next_frame returns it again, and it does not count
  /// as lost. Must be called before the next on_* call; a frame that is not taken back counts as
  /// sent.
  void take_back(const OutgoingFrame& frame);
  /// True if next_frame would return a frame.
  bool has_output(Instant now) const;

  /// Returns true a few times before a silent peer is declared lost: other peers should then be
  /// questioned, to learn whether they hear this rank. `alone`: none of them has answered since the
  /// silence began (Blame::either).
  bool on_timer(Instant now, CompletionSink& sink, bool alone = false);
  /// Time at which on_timer has something to do, or next_frame has a delayed ACK to send.
  Instant next_deadline() const;

  /// Limits the frames in flight until the next call; nothing: no limit.
  void hold_back(const std::optional<Allowance>& allowance);
  Backlog backlog() const;
  /// While on, the channel pings a silent peer, and fails if nothing is heard for peer_timeout
  /// after a ping. While off, it does the same as long as anything on this side waits for the peer.
  ///
  /// A peer that answers, but does not acknowledge the oldest frame within peer_timeout and many
  /// retransmissions, is reported once by a `failure` completion with `undelivered_bytes`. The
  /// channel continues with short frames, and refuses READs of the peer with Code::peer_failed.
  void watch(bool on, Instant now);
  /// Discounts the silence of the peer until now, because this side could not listen.
  void forgive_silence(Instant now) { peer_timeout_.begin(now); }
  /// Makes frames that are cut from now on at most `bytes` long.
  void limit_frames(std::uint32_t bytes);
  /// Makes the channel send a frame of full length soon. It reveals a path that loses long frames,
  /// even if no other long frame is sent.
  void test_path() { path_test_wanted_ = true; }
  /// Declares the peer lost: pending requests complete with `code`, then one `failure` completion
  /// follows. From then on, frames of the peer are answered by the news that this side has given up.
  void fail(Code code, CompletionSink& sink, Blame blame = Blame::peer);
  /// Releases the callers' memory: work that was not copied has no further effect
  /// (Endpoint::abandon).
  void abandon();
  /// Records that the peer was heard by other means than a frame of this channel.
  void on_heard(Instant now) { peer_timeout_.on_heard(now); }
  bool failed() const { return failed_; }
  /// Asks the peer for an answer, which nothing waits for.
  void question() { ask_wanted_ = true; }
  const PeerTimeout& silence() const { return peer_timeout_; }
  /// True if the peer has not answered several retransmissions in a row, for longer than frames wait
  /// in the queues of a network. False once a failure is reported: signs of life of a rank that has
  /// given up would make the peer wait for ever.
  bool unanswered(Instant now) const {
    return !failed_ && !undelivered_ && send_.timeouts_in_a_row() >= kAskAfterTimeouts &&
           now - send_.oldest_since() >= config_.peer_timeout / kUnansweredPart;
  }
  bool watched() const { return watched_; }
  /// True if the channel may be closed: nothing is queued, unacknowledged or being answered, and no
  /// ACK is due.
  bool quiet() const;
  /// The position from which another channel can go on later; nothing unless this one is quiet and
  /// no operation of the peer is half done.
  std::optional<RcPosition> resting_position() const;
  /// True if this side needs an ACK of the peer: frames wait for the window or for room in a ring,
  /// or the poster may wait for a WRITE or READ to complete.
  bool awaits_peer() const;
  const SendWindow& window() const { return send_; }

 private:
  /// Number of timeouts in a row after which a short frame that requests an ACK follows each
  /// retransmission. The answer distinguishes a path that loses long frames from a silent peer.
  static constexpr std::uint32_t kAskAfterTimeouts = 3;
  static constexpr int kUnansweredPart = 20;
  /// Largest frame in bytes that is sent twice as a tail probe. Sending a longer one twice would
  /// cost more than a loss costs on average, a hundredth of a timeout.
  static constexpr std::size_t kRepeatedTailBytes = 2048;

  bool has_new_frame() const;
  bool choose_frame(Instant now, OutgoingFrame& frame);
  void cut_next(FrameRecord& record);
  void cut_ping(FrameRecord& record);
  void fill_sequenced(std::uint32_t sequence, OutgoingFrame& frame);
  void fill(std::uint32_t sequence, OutgoingFrame& frame);
  void fill_acknowledgement(OutgoingFrame& frame, bool ask);
  RcFrame new_frame(RcKind kind) const;
  void on_acknowledged(const FrameRecord& record);

  bool waiting() const;
  bool attentive() const { return watched_ || waiting(); }
  void report_undelivered(CompletionSink& sink);

  Rank peer_;
  RcConfig config_;
  RcCounters& counters_;
  bool failed_ = false;
  bool farewell_wanted_ = false;  ///< the peer does not know that this side has failed
  Blame blame_ = Blame::peer;     ///< with which this side failed

  WorkQueue works_;
  ResponseQueue responses_;
  SendWindow send_;
  FrameReceiver receiver_;

  /// True: the next new frame comes from responses_, unless that is empty.
  bool response_turn_ = true;
  std::uint32_t since_ack_request_ = 0;  ///< frames sent since the last one that requested an ACK
  bool ask_wanted_ = false;              ///< an ACK that requests an ACK in return is to be sent
  std::optional<std::uint32_t> tail_to_probe_;

  bool path_test_wanted_ = false;
  /// Payload of path tests, allocated with the first test; empty after `abandon`.
  std::vector<std::byte> padding_;
  /// Size of the oldest unacknowledged frame when last sent.
  std::uint32_t oldest_frame_bytes_ = 0;
  bool undelivered_ = false;  ///< the loss of long frames has been reported

  bool watched_ = false;
  PeerTimeout peer_timeout_;
};

}  // namespace tutti::device::rc
