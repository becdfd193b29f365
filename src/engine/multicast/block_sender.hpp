// The send worker of one collective (K1, K8, K9): this rank's block, cut into chunks, posted in
// batches to the subgroups' queue pairs, as far as credits and pace allow.
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
  /// `data` is the block's bytes, the caller's until everything has left this host. The rest
  /// outlives the sender.
  BlockSender(const protocol::BlockLayout& layout, std::uint32_t block_index,
              std::span<const std::byte> data, std::uint32_t epoch, device::Endpoint& endpoint,
              observe::Counters& counters);

  /// From now on batches leave at this pace, at most `batch_bytes` at once.
  void set_pace(const protocol::Pace& pace, std::uint64_t batch_bytes);

  /// Posts what may be posted below `limit` (a PSN); returns whether anything was.
  bool send(Instant now, std::uint32_t limit);
  /// Posts what is to be multicast again; returns whether anything was.
  bool send_again();
  /// Chunks of our block to multicast once more.
  void again(Range psns) { again_.push_back(psns); }
  bool has_again() const { return !again_.empty(); }
  /// Repeats the last chunk that each subgroup has sent.
  void send_tail_probe();

  bool posted_all() const { return lowest_unsent() >= block().psns.last; }
  /// Below this everything was posted.
  std::uint32_t lowest_unsent() const;
  /// Payload that waits in this host's queues.
  std::uint64_t unsent_bytes() const;
  /// Whether a queue still reads the block's bytes.
  bool reads_posted() const;

  /// A send queue was full. Where the device tells when there is room again it is to be asked to;
  /// where it does not, `retry_after` is when to look.
  bool blocked() const { return blocked_; }
  /// What has been posted is to drain first: no device tells when it has, so look again then.
  void drain(Nanoseconds retry_after);
  /// After the last round nothing more can leave for so long; none: something can.
  std::optional<Nanoseconds> retry_after() const { return retry_after_; }
  void begin_round();
  /// Whether a queue of this host ever filled up: the link, not the host, is the limit.
  bool queue_filled() const { return queue_filled_; }
  /// When the pace lets the next batch go; kNever without a pace.
  Instant next_send() const { return pace_.limited() ? pace_.next() : kNever; }
  /// A failed system call, if there was one.
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
  std::vector<std::uint32_t> cursors_;  ///< next PSN to send, a subgroup each
  std::vector<Range> again_;
  bool blocked_ = false;
  bool queue_filled_ = false;
  std::optional<Nanoseconds> retry_after_;
  Status status_;
};

}  // namespace tutti::engine
