// The reliable connection to one peer over unreliable datagrams: SEND, WRITE, WRITE with immediate
// and READ with the semantics of a verbs RC queue pair.
//
// It uses no sockets, clocks or threads: datagram payloads and instants go in, datagram payloads
// and completions come out. The caller verifies and removes the outer header, and calls
//   on_frame   for each datagram of this peer, then
//   next_frame until it returns false, sending each frame, and
//   on_timer   at next_deadline.
//
// Order: requests start and complete in the order posted. Messages and immediates arrive in order,
// after the data of every earlier WRITE. A READ sees every earlier WRITE; a later WRITE may
// overtake it unless the READ's completion is awaited (verbs: the fence). An operation of zero
// bytes touches no memory, and its key is not checked.
//
// Memory: buffers named by a request must stay valid until its completion or, for unsignaled work,
// that of a later request. `post` copies SENDs of up to kInlineSendBytes. The answer to a READ is
// sent and retransmitted from the registered region; deregistering the region refuses the READ.
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
#include "device/rc/window/rc_receive_window.hpp"
#include "device/rc/window/rc_send_window.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device::rc {

/// Largest SEND that is copied when posted.
inline constexpr std::size_t kInlineSendBytes = 256;
/// Largest number of READs open at the peer; more wait in the queue.
inline constexpr std::uint32_t kMaxOpenReads = 256;
/// The smallest RcConfig::max_frame_bytes.
inline constexpr std::uint32_t kMinFrameBytes = 512;

/// Both sides of a connection use the same frame, message and sequence settings.
struct RcConfig {
  std::uint32_t max_frame_bytes = 1448;  ///< datagram behind the wire header: RC header and data
  std::uint32_t overhead_bytes = 0;      ///< headers of a packet before the frame, for reports
  std::uint32_t max_message_bytes = 16 * 1024;
  std::uint32_t window_bytes = 256 * 1024;  ///< largest amount in flight; gives 4 to 1024 frames
  std::uint32_t max_queued_requests = 4096;
  std::uint32_t unexpected_buffers = 256;  ///< messages and READs kept if they arrive out of order
  Nanoseconds rto_min{2'000'000};
  /// Limit of the first timeout. A peer whose application computes answers late, which makes round
  /// trips look long; a needless retransmission costs less than waiting for a lost last message.
  Nanoseconds rto_first_max{8'000'000};
  Nanoseconds rto_max{200'000'000};
  /// Long enough for two packets of 64 KiB at 1 Gbit/s. A sender that waits asks for an ACK, which
  /// is sent at once.
  Nanoseconds ack_delay{1'200'000};
  Nanoseconds peer_timeout{10'000'000'000};
  std::uint32_t own_incarnation = 0;
  std::uint32_t peer_incarnation = 0;
  std::uint32_t initial_sequence = 0;
};

/// Checks the settings; a channel requires settings that passed.
Status check(const RcConfig& config);

/// Counts of all channels of an endpoint together, cumulative.
struct RcCounters {
  std::uint64_t frames_sent = 0;  ///< datagrams, ACKs and retransmissions included
  std::uint64_t frames_resent = 0;
  std::uint64_t tail_probes = 0;  ///< last frames sent twice
  std::uint64_t acks_sent = 0;    ///< frames with nothing but an ACK
  std::uint64_t bytes_sent = 0;   ///< data bytes, retransmissions included
  std::uint64_t read_bytes_served = 0;
  std::uint64_t timeouts = 0;  ///< retransmissions after a timeout
  std::uint64_t pings_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t frames_duplicate = 0;
  std::uint64_t frames_dropped_unexpected = 0;  ///< beyond the window, or no buffer was free
  std::uint64_t rejected_malformed = 0;
  std::uint64_t rejected_incarnation = 0;
  std::uint64_t refused_operations = 0;  ///< operations of peers with a bad key or range
};

/// One datagram behind the wire header: `header`, then `payload`.
struct OutgoingFrame {
  std::array<std::byte, kRcHeaderMax> header;
  std::size_t header_bytes = 0;
  std::span<const std::byte> payload;  ///< user memory, valid until the channel's next on_* call
  std::uint32_t sequence = 0;
  bool sequenced = false;
  bool repeated = false;  ///< this is a tail probe

  std::size_t size() const { return header_bytes + payload.size(); }
};

/// Receives completions. The payload of a `receive` is valid only during the call, which must not
/// call the channel.
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

  /// Queues work. Fails for a message too long or an opcode that cannot be posted
  /// (invalid_argument), a full queue (resource_exhausted) or a failed channel (peer_failed).
  Status post(Instant now, const WorkRequest& request);

  /// Handles a datagram of this peer, without the wire header.
  void on_frame(Instant now, std::span<const std::byte> bytes, CompletionSink& sink);
  /// Fills in the next datagram to send; false if nothing is to be sent. Frames of bulk data have
  /// exactly max_frame_bytes, except the last of an operation.
  bool next_frame(Instant now, OutgoingFrame& frame);
  /// Returns a frame that could not be sent: it is offered again and does not count as lost. Only
  /// before the next on_* call; a frame dropped without this is a loss.
  void take_back(const OutgoingFrame& frame);
  /// True if next_frame would return a frame.
  bool has_output(Instant now) const;

  void on_timer(Instant now, CompletionSink& sink);
  /// Time at which on_timer, or next_frame for a delayed ACK, has work.
  Instant next_deadline() const;

  /// While on, few frames may be in flight, so that multicast has priority.
  void hold_back(bool on) { send_.hold_back(on); }
  /// True if frames wait for the window or for `hold_back`.
  bool held_up() const;
  /// While on, a silent peer is pinged and, after peer_timeout, the channel fails. The same holds
  /// without it as long as anything of this side waits for the peer.
  ///
  /// A peer that answers, but does not acknowledge the oldest frame within peer_timeout and many
  /// retransmissions, is reported once by a `failure` completion with `undelivered_bytes`. The
  /// channel continues with short frames: READs by the peer are refused with Code::peer_failed.
  void watch(bool on, Instant now);
  /// Sends a frame of full length soon: without other long frames it shows a path that loses them.
  void test_path() { path_test_wanted_ = true; }
  /// Gives the peer up: pending requests complete with `code`, then one `failure` is raised.
  void fail(Code code, CompletionSink& sink);
  /// Releases the callers' memory: work that was not copied has no further effect
  /// (Endpoint::abandon).
  void abandon();
  bool failed() const { return failed_; }
  bool watched() const { return watched_; }
  /// True if nothing is queued, unacknowledged or being answered and no ACK is due: the channel may
  /// be closed.
  bool quiet() const;
  /// True if progress needs an ACK of the peer: frames wait for the window or for room in a ring,
  /// or the poster may wait for a WRITE or READ.
  bool awaits_peer() const;
  std::uint32_t window_frames() const { return send_.window_frames(); }
  Nanoseconds smoothed_round_trip() const { return send_.smoothed_round_trip(); }

 private:
  /// Open READs of the peer, and as many refusals of WRITEs.
  static constexpr std::uint32_t kResponseSlots = 2 * kMaxOpenReads;
  /// Frames after which a receiver sends an ACK without being asked.
  static constexpr std::uint32_t kAcknowledgeEvery = 16;
  /// Time-outs in a row after which a short frame that asks for an ACK follows each retransmission:
  /// it distinguishes a path that loses long frames from a silent peer.
  static constexpr std::uint32_t kAskAfterTimeouts = 3;
  /// The longest frame that leaves twice: what it costs the link stays below what a loss costs on
  /// average, a hundredth of a time-out.
  static constexpr std::size_t kRepeatedTailBytes = 2048;

  /// A posted request and its progress.
  struct Work {
    WorkRequest request;
    std::byte* inline_copy = nullptr;
    std::uint64_t cut_bytes = 0;     ///< bytes put into frames so far
    std::uint64_t answer_bytes = 0;  ///< READ: bytes still missing
    std::uint32_t frames = 0;        ///< unacknowledged frames
    bool all_cut = false;
    bool answered = false;  ///< READ: the whole answer has arrived
    Code code = Code::ok;
  };
  /// An answer to a peer's request.
  struct Response {
    RcKind kind = RcKind::read_response;
    std::uint32_t operation = 0;
    std::uint64_t key = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint64_t position = 0;
  };
  /// A frame that arrived out of order, by sequence.
  struct Early {
    RcKind kind = RcKind::empty;
    std::byte* kept = nullptr;  ///< send, read_request: copy of the frame, executed in its turn
    std::uint32_t retained_bytes = 0;
    std::byte* placed = nullptr;  ///< write: destination of its data, already written
    std::uint32_t placed_bytes = 0;
    std::uint32_t operation = 0;  ///< write_immediate
    std::uint64_t immediate = 0;  ///< write_immediate
  };

  // Own requests.
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

  // Sending.
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
  void fill_acknowledgement(OutgoingFrame& frame, bool ask);
  bool acknowledge_now(Instant now) const;
  RcFrame new_frame(RcKind kind) const;

  // Receiving.
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

  // Liveness.
  bool waiting() const;
  bool attentive() const { return watched_ || waiting(); }
  void begin_attention(Instant now, bool was_attentive);
  void report_undelivered(CompletionSink& sink);
  Instant silent_since() const { return std::max(last_heard_, attentive_since_); }

  Rank peer_;
  RcConfig config_;
  MemoryTable& memory_;
  RcCounters& counters_;
  bool failed_ = false;

  std::vector<Work> works_;       ///< ring: a power of two, grown up to max_queued_requests
  std::uint32_t first_work_ = 0;  ///< first request not completed
  std::uint32_t next_work_ = 0;   ///< first request not completely put into frames
  std::uint32_t end_work_ = 0;
  std::uint32_t open_reads_ = 0;  ///< READs requested and not answered
  BufferPool inline_buffers_;
  SendWindow send_;

  std::vector<Response> responses_;  ///< ring, allocated on first use
  std::uint32_t awaited_works_ = 0;
  std::uint32_t first_response_ = 0;
  std::uint32_t end_response_ = 0;
  bool response_turn_ = true;

  ReceiveWindow receive_;
  std::vector<Early> early_;  ///< allocated with the first frame out of order
  BufferPool unexpected_buffers_;
  std::vector<std::byte> message_;  ///< message of several frames, in assembly
  bool refusing_ = false;  ///< the expected frame belongs to refused_operation_, not voided yet
  bool refused_any_ = false;
  std::uint32_t refused_operation_ = 0;

  std::uint32_t unacknowledged_arrivals_ = 0;
  bool newest_was_resent_ = false;
  bool acknowledge_at_once_ = false;
  Instant acknowledge_at_ = kNever;
  std::uint32_t since_ack_request_ = 0;

  std::optional<std::uint32_t> tail_to_probe_;
  std::uint32_t oldest_frame_bytes_ = 0;  ///< as last sent, of the oldest unacknowledged frame
  bool undelivered_ = false;              ///< reported: long frames do not arrive
  std::vector<std::byte> padding_;        ///< of path tests, allocated with the first

  bool watched_ = false;
  bool ping_wanted_ = false;
  bool ask_wanted_ = false;  ///< an ACK that asks for one is to be sent
  bool path_test_wanted_ = false;
  Instant last_heard_{INT64_MIN};
  Instant attentive_since_{INT64_MIN};
};

}  // namespace tutti::device::rc
