// The reliable connection to one peer over unreliable datagrams: SEND, WRITE, WRITE with immediate
// and READ with the semantics of a verbs RC queue pair.
//
// No sockets, clocks or threads: datagram payloads and instants come in, datagram payloads and
// completions go out. The caller verifies and strips the outer header, and drives a channel by
//   on_frame   for each datagram of this peer, then
//   next_frame until it says false, sending what it gives, and
//   on_timer   when next_deadline has come.
//
// Order. Requests start in the order posted and complete in that order. Messages and immediates
// arrive in order, after the data of every WRITE posted before them. READs see every WRITE posted
// before them; a WRITE posted after a READ may overtake it unless the READ's completion is awaited
// (verbs: the fence). An operation of zero bytes touches no memory, and its key is not looked at.
//
// Memory. What a request names is the caller's until its completion, or, for unsignaled work, until
// the completion of a later request. SENDs of up to kInlineSendBytes are copied by `post`. An
// answer to a READ is sent out of the registered region, and sent again out of it: a region
// deregistered meanwhile refuses the READ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/rc/memory_table.hpp"
#include "device/rc/rc_buffer_pool.hpp"
#include "device/rc/rc_frame.hpp"
#include "device/rc/rc_receive_window.hpp"
#include "device/rc/rc_send_window.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device::rc {

/// A SEND of up to this many bytes is copied when it is posted.
inline constexpr std::size_t kInlineSendBytes = 256;
/// READs that a channel has open at its peer; more wait in the queue.
inline constexpr std::uint32_t kMaxOpenReads = 256;
/// The smallest RcConfig::max_frame_bytes.
inline constexpr std::uint32_t kMinFrameBytes = 512;

/// Both sides of a connection use the same frame, message and sequence settings.
struct RcConfig {
  std::uint32_t max_frame_bytes = 1448;  ///< datagram behind the wire header: RC header and data
  std::uint32_t max_message_bytes = 16 * 1024;
  std::uint32_t window_bytes = 256 * 1024;  ///< on their way at once; 4 to 1024 frames come of it
  std::uint32_t max_queued_requests = 4096;
  std::uint32_t unexpected_buffers = 256;  ///< messages and READs that arrive early and are kept
  Nanoseconds rto_min{2'000'000};
  /// A peer whose application computes answers late and makes round trips look long; its single
  /// probe costs little, a lost last message that waits for it costs a collective.
  Nanoseconds rto_first_max{8'000'000};
  Nanoseconds rto_max{200'000'000};
  /// Long enough for two packets of 64 KiB at 1 Gbit/s. Whoever waits asks, and is answered at
  /// once.
  Nanoseconds ack_delay{1'200'000};
  Nanoseconds peer_timeout{10'000'000'000};
  std::uint32_t own_incarnation = 0;
  std::uint32_t peer_incarnation = 0;
  std::uint32_t initial_sequence = 0;
};

/// Whether a channel can work with these settings. Channels assume that it said ok.
Status check(const RcConfig& config);

/// Counts of all channels of an endpoint together, cumulative.
struct RcCounters {
  std::uint64_t frames_sent = 0;  ///< datagrams, acknowledgements and retransmissions included
  std::uint64_t frames_resent = 0;
  std::uint64_t tail_probes = 0;  ///< frames that left twice at once
  std::uint64_t acks_sent = 0;    ///< alone
  std::uint64_t bytes_sent = 0;   ///< data, each time that it is sent
  std::uint64_t read_bytes_served = 0;
  std::uint64_t timeouts = 0;  ///< retransmissions that only the time-out asked for
  std::uint64_t pings_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t frames_duplicate = 0;
  std::uint64_t frames_dropped_unexpected = 0;  ///< too far ahead, or no buffer to keep them
  std::uint64_t rejected_malformed = 0;
  std::uint64_t rejected_incarnation = 0;
  std::uint64_t refused_operations = 0;  ///< of peers: bad key or range
};

/// One datagram behind the wire header: `header`, then `payload`.
struct OutgoingFrame {
  std::array<std::byte, kRcHeaderMax> header;
  std::size_t header_bytes = 0;
  std::span<const std::byte> payload;  ///< the user's memory, until the channel's next on_* call
  std::uint32_t sequence = 0;
  bool sequenced = false;
  bool repeated = false;  ///< it leaves for the second time at once

  std::size_t size() const { return header_bytes + payload.size(); }
};

/// Takes completions. The payload of a `receive` is valid during the call only: copy it there.
/// Must not call the channel.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  virtual void push(const Completion& completion) = 0;
};

class RcChannel {
 public:
  /// `memory` and `counters` outlive the channel; `config` has passed `check`.
  RcChannel(Rank peer, const RcConfig& config, MemoryTable& memory, RcCounters& counters);
  RcChannel(const RcChannel&) = delete;
  RcChannel& operator=(const RcChannel&) = delete;

  /// Queues work. Refused: a message too long or an opcode that cannot be posted
  /// (invalid_argument), a full queue (resource_exhausted), a failed channel (peer_failed).
  Status post(Instant now, const WorkRequest& request);

  /// Takes a datagram of this peer, behind the wire header.
  void on_frame(Instant now, std::span<const std::byte> bytes, CompletionSink& sink);
  /// Fills in the next datagram to send now; false when there is none. Frames of bulk data are
  /// exactly max_frame_bytes long, but for the last of an operation.
  bool next_frame(Instant now, OutgoingFrame& frame);
  /// Says that a frame could not be sent: it will be given again, and does not count as lost. Only
  /// before the next on_* call; a frame that the caller drops without this is a loss.
  void take_back(const OutgoingFrame& frame);
  /// Whether next_frame would give one.
  bool has_output(Instant now) const;

  void on_timer(Instant now, CompletionSink& sink);
  /// When on_timer or, for a delayed acknowledgement, next_frame has something to do.
  Instant next_deadline() const;

  /// While on, only a few frames are on their way at once: others go first.
  void hold_back(bool on) { send_.hold_back(on); }
  /// Frames wait for the window, or for `hold_back`.
  bool held_up() const;
  /// While on, a silent peer is pinged and, after peer_timeout, the channel fails. The same holds
  /// without it as long as anything of this side waits for the peer.
  void watch(bool on, Instant now);
  /// Gives the peer up: pending requests complete with `code`, then one `failure` is raised.
  void fail(Code code, CompletionSink& sink);
  /// Lets go of all memory of the caller's: what is not copied does nothing more
  /// (Endpoint::abandon).
  void abandon();
  bool failed() const { return failed_; }
  bool watched() const { return watched_; }
  Rank peer() const { return peer_; }
  /// Nothing is queued, unacknowledged or being answered, and no acknowledgement is owed: the
  /// channel may be closed.
  bool quiet() const;
  /// Something goes on only when the peer acknowledges: frames that the window, or a full ring,
  /// holds up, or a WRITE or READ whose poster may wait for its completion.
  bool awaits_peer() const;
  std::uint32_t window_frames() const { return send_.window_frames(); }
  Nanoseconds smoothed_round_trip() const { return send_.smoothed_round_trip(); }

 private:
  /// Open READs, and refusals of WRITEs beside them.
  static constexpr std::uint32_t kResponseSlots = 2 * kMaxOpenReads;
  /// Frames that a receiver lets pass before it acknowledges without being asked.
  static constexpr std::uint32_t kAcknowledgeEvery = 16;
  /// The longest frame that leaves twice: what it costs the link stays below what a loss costs on
  /// average, a hundredth of a time-out.
  static constexpr std::size_t kRepeatedTailBytes = 2048;

  /// A posted request and how far it is.
  struct Work {
    WorkRequest request;
    std::byte* inline_copy = nullptr;
    std::uint64_t cut_bytes = 0;     ///< in frames so far
    std::uint64_t answer_bytes = 0;  ///< READ: still missing
    std::uint32_t frames = 0;        ///< unacknowledged
    bool all_cut = false;
    bool answered = false;  ///< READ: all is there
    Code code = Code::ok;
  };
  /// What a peer's request makes us send.
  struct Response {
    RcKind kind = RcKind::read_response;
    std::uint32_t operation = 0;
    std::uint64_t key = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint64_t position = 0;
  };
  /// A frame that arrived before one that precedes it, by sequence.
  struct Early {
    RcKind kind = RcKind::empty;
    std::byte* kept = nullptr;  ///< send, read_request: the frame, executed in its turn
    std::uint32_t retained_bytes = 0;
    std::byte* placed = nullptr;  ///< write: where its data lies already
    std::uint32_t placed_bytes = 0;
    std::uint32_t operation = 0;  ///< write_immediate
    std::uint64_t immediate = 0;  ///< write_immediate
  };

  // The own requests.
  Work& work(std::uint32_t operation) { return works_[operation & (works_.size() - 1)]; }
  const Work& work(std::uint32_t operation) const {
    return works_[operation & (works_.size() - 1)];
  }
  static bool awaited(const WorkRequest& request);
  void grow_works();
  Work* open_work(std::uint32_t operation);
  bool finished(const Work& work) const;
  void complete_finished(CompletionSink& sink);
  void complete_head(Code code, CompletionSink& sink);
  void finish_read(Work& work);
  void abandon(std::uint32_t operation);

  // What to send.
  bool may_cut_work() const;
  bool has_new_frame() const;
  void cut_next(FrameRecord& record);
  void cut_response(FrameRecord& record);
  void cut_work(FrameRecord& record);
  void cut_data(Work& work, FrameRecord& record);
  void cut_reads(FrameRecord& record);
  bool choose_frame(Instant now, OutgoingFrame& frame);
  void fill_sequenced(std::uint32_t sequence, OutgoingFrame& frame);
  void fill(std::uint32_t sequence, OutgoingFrame& frame);
  void fill_work(const FrameRecord& record, RcFrame& out, OutgoingFrame& frame);
  void fill_response(FrameRecord& record, RcFrame& out, OutgoingFrame& frame);
  void fill_acknowledgement(OutgoingFrame& frame);
  bool acknowledge_now(Instant now) const;
  RcFrame new_frame(RcKind kind) const;

  // What arrived.
  void on_acknowledged(const FrameRecord& record);
  void on_sequenced(Instant now, const RcFrame& frame, std::span<const std::byte> bytes,
                    CompletionSink& sink);
  bool accept_next(const RcFrame& frame, CompletionSink& sink);
  bool accept_unexpected(const RcFrame& frame, std::span<const std::byte> bytes);
  void run_unexpected(CompletionSink& sink);
  bool accept_write(const RcFrame& frame, std::byte*& placed);
  void place(const RcFrame& frame, std::byte* to);
  void place_under_later(std::span<const std::byte> data, std::byte* to, std::uint32_t later);
  void refuse_write(const RcFrame& frame);
  void deliver_immediate(std::uint32_t operation, std::uint64_t immediate, CompletionSink& sink);
  void deliver_message(const RcFrame& frame, CompletionSink& sink);
  void accept_read(const RcFrame& frame);
  void accept_answer(const RcFrame& frame);
  void accept_refusal(const RcFrame& frame);
  bool push_response(const Response& response);
  Early& early(std::uint32_t sequence) { return early_[sequence % kRcReceiveWindowFrames]; }

  // Signs of life.
  bool waiting() const;
  bool attentive() const { return watched_ || waiting(); }
  void begin_attention(Instant now, bool was_attentive);
  Instant silent_since() const { return std::max(last_heard_, attentive_since_); }

  Rank peer_;
  RcConfig config_;
  MemoryTable& memory_;
  RcCounters& counters_;
  bool failed_ = false;

  std::vector<Work> works_;       ///< ring: a power of two, grown up to max_queued_requests
  std::uint32_t first_work_ = 0;  ///< not completed
  std::uint32_t next_work_ = 0;   ///< not wholly cut into frames
  std::uint32_t end_work_ = 0;
  std::uint32_t open_reads_ = 0;  ///< asked, not answered
  BufferPool inline_buffers_;
  SendWindow send_;

  std::vector<Response> responses_;  ///< ring, allocated with the first
  std::uint32_t awaited_works_ = 0;
  std::uint32_t first_response_ = 0;
  std::uint32_t end_response_ = 0;
  bool response_turn_ = true;

  ReceiveWindow receive_;
  std::vector<Early> early_;  ///< allocated with the first early frame
  BufferPool unexpected_buffers_;
  std::vector<std::byte> message_;  ///< of several frames, in assembly
  bool refusing_ = false;  ///< the expected frame belongs to refused_operation_, not voided yet
  bool refused_any_ = false;
  std::uint32_t refused_operation_ = 0;

  std::uint32_t unacknowledged_arrivals_ = 0;
  bool newest_was_resent_ = false;
  bool acknowledge_at_once_ = false;
  Instant acknowledge_at_ = kNever;
  std::uint32_t since_ack_request_ = 0;

  std::optional<std::uint32_t> tail_to_probe_;

  bool watched_ = false;
  bool ping_wanted_ = false;
  Instant last_heard_{INT64_MIN};
  Instant attentive_since_{INT64_MIN};
};

}  // namespace tutti::device::rc
