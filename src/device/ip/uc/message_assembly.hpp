// One source's UC message on its way in (K10): which segment comes next, and what a gap undoes.
//
// A message counts only if all its segments come in order. One that is missing, or overtaken by a
// later one, voids it, as does another message of the same source before its end; a segment that
// comes twice changes nothing. No I/O: the queue pair moves the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wire/segment.hpp"

namespace tutti::device::ip {

class MessageAssembly {
 public:
  enum class Verdict : std::uint8_t {
    begins,     ///< the first segment of a message
    continues,  ///< the one that is due; also the first one, admitted again before it is placed
    repeated,   ///< has been placed already
    dropped,    ///< of a message that a gap voided or that was refused
  };

  /// What becomes of a segment whose encoded header is at `header`. Only after `begins` or
  /// `continues` may its bytes be placed, and `advance` says that they were.
  Verdict admit(const std::byte* header, const wire::Segment& segment) {
    const bool same = state_ != State::none && message_bytes_ == segment.message_bytes &&
                      std::memcmp(header_.data(), header, wire::kHeaderBytes) == 0;
    if (same && state_ == State::open) {
      if (segment.offset == next_) return Verdict::continues;
      if (segment.offset < next_) return Verdict::repeated;
      state_ = State::over;
      ++gaps_;
      return Verdict::dropped;
    }
    if (same && !segment.begins()) return Verdict::dropped;
    if (state_ == State::open) ++gaps_;
    std::memcpy(header_.data(), header, wire::kHeaderBytes);
    message_bytes_ = segment.message_bytes;
    next_ = 0;
    state_ = segment.begins() ? State::open : State::over;
    if (segment.begins()) return Verdict::begins;
    ++gaps_;
    return Verdict::dropped;
  }

  /// The bytes of the segment that was admitted are in place; returns whether the message is whole.
  bool advance(std::uint32_t bytes) {
    next_ += bytes;
    if (next_ < message_bytes_) return false;
    state_ = State::over;
    return true;
  }
  /// Nobody wants the rest of the message.
  void refuse() { state_ = State::over; }

  /// The encoded header of the message, until the next begins.
  const std::byte* header() const { return header_.data(); }
  /// Messages that a gap voided.
  std::uint64_t gaps() const { return gaps_; }

 private:
  enum class State : std::uint8_t { none, open, over };

  std::array<std::byte, wire::kHeaderBytes> header_{};
  std::uint32_t message_bytes_ = 0;
  std::uint32_t next_ = 0;  ///< offset of the segment that is due
  State state_ = State::none;
  std::uint64_t gaps_ = 0;
};

}  // namespace tutti::device::ip
