// The receiving side of a connection: it executes each frame of the peer once, in order of
// sequence, and makes an ACK due. A frame is early if a frame before it is missing. The data of
// early WRITEs and answers is placed at once; early messages, READs and atomics are kept until the
// missing frames have arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/rc/completion_queue.hpp"
#include "device/rc/memory_table.hpp"
#include "device/rc/rc_buffer_pool.hpp"
#include "device/rc/rc_config.hpp"
#include "device/rc/rc_delayed_ack.hpp"
#include "device/rc/rc_frame.hpp"
#include "device/rc/rc_response_queue.hpp"
#include "device/rc/rc_work_queue.hpp"
#include "device/rc/window/rc_receive_window.hpp"
#include "tutti/units.hpp"

namespace tutti::device::rc {

class FrameReceiver {
 public:
  /// The objects passed by reference must outlive the receiver. `works` handles the peer's
  /// answers, and `responses` handles the peer's READs and atomics.
  FrameReceiver(Rank peer, const RcConfig& config, std::uint32_t next_expected,
                const MemoryTable& memory, RcCounters& counters, WorkQueue& works,
                ResponseQueue& responses)
      : peer_(peer),
        config_(config),
        memory_(memory),
        counters_(counters),
        works_(works),
        responses_(responses),
        window_(next_expected),
        early_buffers_(config.max_frame_bytes, config.unexpected_buffers),
        ack_(config.ack_delay, config.reply_wait) {}

  /// Handles a frame that has a sequence number and was decoded from `bytes`. Returns true if the
  /// frame opens a gap, because a frame before it is missing.
  bool on_frame(Instant now, const RcFrame& frame, std::span<const std::byte> bytes,
                CompletionSink& sink);

  const ReceiveWindow& window() const { return window_; }
  DelayedAck& ack() { return ack_; }
  const DelayedAck& ack() const { return ack_; }
  /// True if no frame is missing and no operation of the peer is incomplete or refused, so that the
  /// next frame depends on no earlier one.
  bool between_operations() const {
    return !window_.gap() && message_arrived_ == 0 && open_write_bytes_ == 0 && !refusing_ &&
           !refused_any_ && given_up_frames_ == 0;
  }
  /// Ends the use of the memory in which a message of several frames is being stored; the rest of
  /// the message is dropped.
  void release_place() {
    if (message_place_) message_place_->memory = {};
  }
  /// True if the newest arrival was a retransmission.
  bool newest_was_resent() const { return newest_was_resent_; }

 private:
  /// The part of a WRITE that one frame carries, without its data.
  struct WritePart {
    static WritePart of(const RcFrame& frame) {
      return {frame.operation, frame.continues, frame.remaining, frame.immediate};
    }

    std::uint32_t operation = 0;
    bool continues = false;
    std::uint64_t remaining = 0;
    std::uint64_t immediate = 0;
  };
  /// A frame that arrived while a frame before it was missing.
  struct Early {
    RcKind kind = RcKind::empty;
    std::byte* kept = nullptr;  ///< copy of a send or request until it is executed, else null
    std::uint32_t kept_bytes = 0;
    std::byte* placed = nullptr;  ///< destination of a write, with the data in place; else null
    std::uint32_t placed_bytes = 0;
    WritePart write{};
    std::uint16_t given_up_frames = 0;  ///< `count` of an empty frame (RcFrame)
  };

  Early& early(std::uint32_t sequence) { return early_[sequence % kRcReceiveWindowFrames]; }
  bool accept_next(const RcFrame& frame, CompletionSink& sink);
  std::byte* keep(RcKind kind, std::span<const std::byte> bytes);
  bool accept_early(const RcFrame& frame, std::span<const std::byte> bytes);
  void run_early(CompletionSink& sink);
  void run(const Early& next, CompletionSink& sink);
  bool accept_write(const RcFrame& frame, std::byte*& placed);
  void place_under_later(std::span<const std::byte> data, std::byte* to, std::uint32_t later);
  void refuse_write(const RcFrame& frame);
  void finish_write(RcKind kind, const WritePart& part, std::uint64_t bytes, CompletionSink& sink);
  void deliver_immediate(std::uint32_t operation, std::uint64_t immediate, CompletionSink& sink);
  void deliver_message(const RcFrame& frame, CompletionSink& sink);
  void drop_message();
  void end_write();
  bool count_given_up();
  void accept_empty(std::uint16_t given_up_frames);

  Rank peer_;
  const RcConfig& config_;
  const MemoryTable& memory_;
  RcCounters& counters_;
  WorkQueue& works_;
  ResponseQueue& responses_;

  ReceiveWindow window_;
  std::vector<Early> early_;  ///< early frames by sequence number, allocated with the first one
  BufferPool early_buffers_;
  // The message that is arriving: the number of bytes that have arrived, its length, and where its
  // bytes are stored.
  std::uint32_t message_arrived_ = 0;
  std::uint32_t message_bytes_ = 0;
  std::optional<MessagePlace> message_place_;  ///< destination that `match` chose, if any
  std::vector<std::byte> message_;             ///< bytes received, if no destination was chosen
  /// The WRITE whose frame was executed last, and how many bytes of this WRITE are still missing.
  std::uint32_t open_write_ = 0;
  std::uint64_t open_write_bytes_ = 0;
  /// True: the expected frame belongs to refused_operation_, and the peer will replace the frame by
  /// an empty one.
  bool refusing_ = false;
  bool refused_any_ = false;
  std::uint32_t refused_operation_ = 0;
  /// Number of frames, from the expected one on, whose requests the peer has given up.
  std::uint16_t given_up_frames_ = 0;
  bool newest_was_resent_ = false;
  DelayedAck ack_;
};

}  // namespace tutti::device::rc
