// Assembly of the UC message that one source rank is sending ([Khalilov24] 5.2). The assembly
// records the fragment that must come next, and whether the message is void.
//
// A message is valid only if all its fragments arrive in order. The message becomes void if a
// fragment is missing or reordered, or if the source rank begins another message before this
// message is complete. A repeated fragment is ignored, with one exception: if a message has ended,
// a repetition of its first fragment begins the message again. This class does no I/O: the queue
// pair copies the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wire/uc_fragment.hpp"

namespace tutti::wire {

class MessageAssembly {
 public:
  enum class Verdict : std::uint8_t {
    begins,  ///< first fragment of a message
    /// The fragment that must come next. If the caller has not placed the first fragment yet, a
    /// repetition of the first fragment also gets this verdict.
    continues,
    repeated,  ///< fragment that was placed already
    dropped,   ///< fragment of a message that has ended or is void
  };

  /// Classifies the fragment whose encoded header is at `header`. The caller may place the
  /// fragment's bytes only after the verdict `begins` or `continues`, and must then call `advance`.
  Verdict admit(const std::byte* header, const UcFragment& fragment) {
    const bool same = state_ != State::none && message_bytes_ == fragment.message_bytes &&
                      std::memcmp(header_.data(), header, kHeaderBytes) == 0;
    if (same && state_ == State::open) {
      if (fragment.offset == next_) return Verdict::continues;
      if (fragment.offset < next_) return Verdict::repeated;
      state_ = State::over;
      ++gaps_;
      return Verdict::dropped;
    }
    if (same && !fragment.begins()) return Verdict::dropped;
    if (state_ == State::open) ++gaps_;
    std::memcpy(header_.data(), header, kHeaderBytes);
    message_bytes_ = fragment.message_bytes;
    next_ = 0;
    state_ = fragment.begins() ? State::open : State::over;
    if (fragment.begins()) return Verdict::begins;
    ++gaps_;
    return Verdict::dropped;
  }

  /// Records that the bytes of the admitted fragment are in place; returns true if the message is
  /// complete.
  bool advance(std::uint32_t bytes) {
    next_ += bytes;
    if (next_ < message_bytes_) return false;
    state_ = State::over;
    return true;
  }
  /// Drops all further fragments of the present message.
  void refuse() { state_ = State::over; }

  /// The encoded header of the present message, valid until the next message begins.
  const std::byte* header() const { return header_.data(); }
  /// Number of messages that became void; messages that refuse() ended do not count.
  std::uint64_t gaps() const { return gaps_; }

 private:
  enum class State : std::uint8_t { none, open, over };

  std::array<std::byte, kHeaderBytes> header_{};
  std::uint32_t message_bytes_ = 0;
  std::uint32_t next_ = 0;  ///< offset of the expected fragment in the message
  State state_ = State::none;
  std::uint64_t gaps_ = 0;
};

}  // namespace tutti::wire
