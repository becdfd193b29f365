// The send worker of one collective ([Khalilov24] 4.3): posts this rank's block, cut into chunks,
// in batches to the subgroups' queue pairs as credits and pace allow.
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
  /// `data` is the block's bytes, which the caller keeps until they have left this host. The other
  /// references outlive the sender.
  BlockSender(const protocol::BlockLayout& layout, std::uint32_t block_index,
              std::span<const std::byte> data, std::uint32_t epoch, device::Endpoint& endpoint,
              observe::Counters& counters);

  /// Sends batches at this pace from now on, at most `batch_bytes` each.
  void set_pace(const protocol::Pace& pace, std::uint64_t batch_bytes);

  /// Posts chunks below `limit` (a PSN); returns whether any was posted.
  bool send(Instant now, std::uint32_t limit);
  /// Posts requested retransmissions; returns whether any was posted.
  bool send_again();
  /// Requests the retransmission of chunks of this rank's block.
  void again(Range psns) { again_.push_back(psns); }
  bool has_again() const { return !again_.empty(); }
  /// Retransmits the last chunk that each subgroup has sent.
  void send_tail_probe();

  bool posted_all() const { return lowest_unsent() >= block().psns.last; }
  /// PSN below which every chunk was posted.
  std::uint32_t lowest_unsent() const;
  /// Payload bytes waiting in this host's queues.
  std::uint64_t unsent_bytes() const;
  /// Whether a queue still reads the block's bytes.
  bool reads_posted() const;

  /// Whether a send queue was full. A device that reports free room is to be asked for that; for
  /// others `retry_after` is when to poll again.
  bool blocked() const { return blocked_; }
  /// Requires posted chunks to leave the queue first; no device reports that, so poll again after
  /// this time.
  void drain(Nanoseconds retry_after);
  /// Time until more can be sent after the last round; none: something can be sent now.
  std::optional<Nanoseconds> retry_after() const { return retry_after_; }
  void begin_round();
  /// Whether a queue of this host ever filled up: the link, not the host, is then the bottleneck.
  bool queue_filled() const { return queue_filled_; }
  /// When the pace allows the next batch; kNever without a pace.
  Instant next_send() const { return pace_.limited() ? pace_.next() : kNever; }
  /// First error of a queue pair, if any.
  const Status& status() const { return status_; }

 private:
  const protocol::Block& block() const { return layout_.blocks()[block_index_]; }
  /// Posts a run of one slice; returns how many chunks were accepted.
  std::uint32_t post(std::uint32_t subgroup, Range psns);
  Range next_run(std::uint32_t subgroup, std::uint32_t limit) const;
  void advance(std::uint32_t subgroup, std::uint32_t accepted);

  const protocol::BlockLayout& layout_;
  std::uint32_t block_index_;
  std::span<const std::byte> data_;
  std::uint32_t epoch_;
  device::Endpoint& endpoint_;
  observe::Counters& counters_;
  protocol::Pace pace_;
  bool link_fills_queue_;
  std::uint32_t batch_chunks_;
  std::vector<std::uint32_t> cursors_;  ///< next PSN to send, by subgroup
  std::vector<Range> again_;
  bool blocked_ = false;
  bool queue_filled_ = false;
  std::optional<Nanoseconds> retry_after_;
  Status status_;
};

}  // namespace tutti::engine
