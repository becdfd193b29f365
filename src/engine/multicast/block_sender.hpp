// Sends this rank's block in one collective ([Khalilov24] 4.3): posts its chunks in batches to the
// subgroups' queue pairs as credits and pace allow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "observe/counters.hpp"
#include "protocol/block_layout.hpp"
#include "protocol/pace.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class BlockSender {
 public:
  /// `data` is the block; the caller must keep it until its last chunk has left this host. The
  /// other referenced objects must outlive the sender.
  BlockSender(const protocol::BlockLayout& layout, std::uint32_t block_index,
              std::span<const std::byte> data, std::uint32_t epoch, Priority priority,
              device::Endpoint& endpoint, observe::Counters& counters);

  /// Sets the pace. From now on a batch has at most `batch_bytes`.
  void set_pace(const protocol::Pace& pace, std::uint64_t batch_bytes);

  /// Posts chunks below the PSN `limit`; returns true if any was posted.
  bool send(Instant now, std::uint32_t limit);
  /// Posts requested retransmissions; returns true if any was posted.
  bool send_again();
  /// Requests that chunks of this rank's block be retransmitted.
  void again(Range psns) { again_.push_back(psns); }
  bool has_again() const { return !again_.empty(); }
  /// Sends the last chunk of each subgroup once more, as a tail probe.
  void send_tail_probe();

  bool posted_all() const { return lowest_unsent() >= block().psns.last; }
  /// The PSN below which every chunk has been posted.
  std::uint32_t lowest_unsent() const;
  /// Payload bytes that wait in send queues of this host.
  std::uint64_t unsent_bytes() const;
  /// True if a send queue still reads the bytes of the block.
  bool reads_posted() const;

  /// True if a send queue has been full since `begin_round`. If the device can report free room,
  /// the caller must ask for that report; otherwise `retry_after` tells when to poll again.
  bool blocked() const { return blocked_; }
  /// Makes the sender wait until posted chunks have left the send queue. No device reports that, so
  /// the sender must be polled again after `retry_after`.
  void drain(Nanoseconds retry_after);
  /// Time to wait after the last poll before more chunks can be posted; nothing if chunks can be
  /// posted now.
  std::optional<Nanoseconds> retry_after() const { return retry_after_; }
  void begin_round();
  /// True if a send queue of this host was ever full; then the link is the bottleneck, not the
  /// host.
  bool queue_filled() const { return queue_filled_; }
  /// The time at which the pace allows the next batch; kNever without a pace.
  Instant next_send() const { return pace_.limited() ? pace_.next() : kNever; }
  /// The first error of a queue pair; ok if there was none.
  const Status& status() const { return status_; }

 private:
  const protocol::Block& block() const { return layout_.blocks()[block_index_]; }
  /// Posts a run of chunks of one slice; returns the number that the send queue accepted.
  std::uint32_t post(std::uint32_t subgroup, Range psns);
  Range next_run(std::uint32_t subgroup, std::uint32_t limit) const;
  void advance(std::uint32_t subgroup, std::uint32_t accepted);

  const protocol::BlockLayout& layout_;
  std::uint32_t block_index_;
  std::span<const std::byte> data_;
  std::uint32_t epoch_;
  Priority priority_;
  device::Endpoint& endpoint_;
  observe::Counters& counters_;
  protocol::Pace pace_;
  bool link_fills_queue_;
  std::uint32_t batch_chunks_;
  std::vector<std::uint32_t> cursors_;  ///< by subgroup: next PSN to send
  std::vector<Range> again_;
  bool blocked_ = false;
  bool queue_filled_ = false;
  std::optional<Nanoseconds> retry_after_;
  Status status_;
};

}  // namespace tutti::engine
