// A short collective as one meeting at a device's board (device/board.hpp): everybody writes once
// and reads what it needs. No message and no handshake; where entries may get lost, who misses one
// asks its rank for it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "device/board.hpp"
#include "engine/operation.hpp"

namespace tutti::engine {

class BoardOperation final : public Operation {
 public:
  /// The endpoint has a board that takes blocks so long. Buffers are the caller's until completion.
  static std::unique_ptr<BoardOperation> barrier();
  /// `buffer` is read at the root and written elsewhere.
  static std::unique_ptr<BoardOperation> broadcast(std::span<std::byte> buffer, bool at_root,
                                                   Rank root);
  /// `own` to everybody's `receive`, by rank; `own` may be its own place there.
  static std::unique_ptr<BoardOperation> allgather(std::span<const std::byte> own,
                                                   std::span<std::byte> receive);
  /// `own` to the root's `receive`, by rank; elsewhere `receive` is empty.
  static std::unique_ptr<BoardOperation> gather(std::span<const std::byte> own,
                                                std::span<std::byte> receive, Rank root);

  /// Nobody leaves a meeting of all before everybody is there.
  bool confirms_earlier() const override {
    return meeting_.flow == device::BoardMeeting::Flow::all_to_all;
  }
  bool meets() const override { return true; }
  void on_message(Instant now, Rank from, const protocol::Message& message) override;
  bool poll(Instant now) override;
  Instant next_deadline() const override;
  bool locally_complete() const override { return over_; }
  bool done() const override { return over_; }
  observe::Phase phase() const override { return observe::Phase::data; }
  std::string missing() const override;

 protected:
  void start(Instant now, bool barrier) override;

 private:
  BoardOperation(Description description, const device::BoardMeeting& meeting,
                 std::span<const std::byte> own, std::span<std::byte> receive);

  bool take(const device::BoardEntry& entry);
  void watch_missing();
  void ask(Instant now);

  device::Board* board_ = nullptr;  ///< once begun
  device::BoardMeeting meeting_;
  std::span<const std::byte> own_;
  std::span<std::byte> receive_;
  Instant watch_at_{};
  Instant ask_at_ = kNever;
  Nanoseconds ask_after_{};
  Instant polled_at_{};
  bool over_ = false;
};

}  // namespace tutti::engine
