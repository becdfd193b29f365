// Coordinates a multicast collective with its receive workers. After silence or after the end of a
// block, missing chunks count as lost only when each worker has found its queues empty. Chunks that
// are being READ are locked, so that no worker writes them. Without workers nothing is locked and
// no worker is awaited.
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

/// A peer's answer with chunk ranges that may be READ.
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

  /// Records that a block was sent completely. Its missing chunks count as lost when every queue
  /// has been read.
  void sender_done(std::uint32_t block_index) { sender_done_.push_back(block_index); }
  /// Reports a completely sent block to the scanner once each worker has found its queues empty
  /// since `sender_done`.
  void judge_ends(protocol::LossScanner& scanner);
  /// True if silence is no sign of loss yet: the cutoff has not expired, or a queue may hold unread
  /// chunks.
  bool unread(Instant now);
  /// Locks the chunks that `answers` offer for READ. Returns false while a worker may still place
  /// one of these chunks: this worker wakes the owner later, and the owner calls `lock` again.
  bool lock(const std::vector<FetchAnswer>& answers);
  /// Number of answers whose chunks `lock` has locked: always the first ones of `answers`.
  std::size_t locked_answers() const { return locked_answers_; }
  void forget_answers() { locked_answers_ = 0; }
  /// Unlocks the chunks of `psns` that are not being READ.
  void unlock(Range psns);

 private:
  MulticastCall& call_;
  SharedBitmap read_locked_;  ///< by PSN: true while no worker may write the chunk
  std::size_t locked_answers_ = 0;
  ReceiveTeam::GracePeriod grace_;  ///< grace period that began when the chunks were locked
  std::vector<std::uint32_t> sender_done_;
  /// Blocks that were sent completely; reported to the scanner once each worker has found its
  /// queues empty.
  std::vector<std::uint32_t> pending_done_;
  std::optional<std::uint64_t> ends_drain_;
  std::optional<std::uint64_t> cutoff_drain_;
  std::optional<std::uint64_t> answers_drain_;
  Instant cutoff_at_{};  ///< time of the last arrival before the cutoff expired
};

}  // namespace tutti::engine
