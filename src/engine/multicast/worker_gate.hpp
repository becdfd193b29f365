// Coordinates a multicast collective with receive workers. Lets them poll before silence or the end
// of a block counts as loss, and locks chunks against them while these are READ. Does nothing
// without workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/shared_bits.hpp"
#include "engine/multicast/multicast_call.hpp"
#include "engine/receive/receive_team.hpp"
#include "protocol/codec/message.hpp"
#include "protocol/loss_scanner.hpp"

namespace tutti::engine {

/// A peer's offer of ranges that may be READ.
struct FetchAnswer {
  Rank from;
  protocol::Message message;
};

class WorkerGate {
 public:
  explicit WorkerGate(MulticastCall& call) : call_(call) {}

  /// Prepares the locks; called once the layout is known.
  void start() {
    if (call_.has_workers()) read_locked_ = SharedBitmap(call_.layout.chunk_count());
  }
  const SharedBitmap& read_locked() const { return read_locked_; }

  /// Records that a block was sent completely: its missing chunks are lost once every queue has
  /// been read.
  void sender_done(std::uint32_t block_index) { sender_done_.push_back(block_index); }
  /// Reports these blocks to the scanner when all workers have polled since then.
  void judge_ends(protocol::LossScanner& scanner);
  /// True if silence must not be judged yet, because it has not lasted long enough or a queue is
  /// unread.
  bool unread(Instant now);
  /// Locks the chunks that `answers` offer for READ; true once no worker can place any of them. The
  /// call does not wait; if a worker is in the middle of a batch, the end of that batch wakes the
  /// owner.
  bool lock(const std::vector<FetchAnswer>& answers);
  /// Number of answers, from the first on, that `lock` has covered.
  std::size_t locked_answers() const { return locked_answers_; }
  void forget_answers() { locked_answers_ = 0; }
  /// Unlocks those chunks that are not being READ.
  void unlock(Range psns);

 private:
  MulticastCall& call_;
  SharedBitmap read_locked_;  ///< by PSN: true while the chunk is locked because it is READ
  std::size_t locked_answers_ = 0;
  ReceiveTeam::GracePeriod grace_;  ///< grace period that began with the lock
  std::vector<std::uint32_t> sender_done_;
  std::vector<std::uint32_t> pending_done_;  ///< blocks sent completely that wait for `ends_drain_`
  std::optional<std::uint64_t> ends_drain_;
  std::optional<std::uint64_t> cutoff_drain_;
  std::optional<std::uint64_t> answers_drain_;
  Instant cutoff_at_{};  ///< time of the last arrival when the silence was noticed
};

}  // namespace tutti::engine
