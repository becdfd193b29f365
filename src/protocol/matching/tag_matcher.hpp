// Matches tagged messages with receives, as MPI and tag-matching adapters do [OFED-AT]. No I/O: the
// caller keeps the buffers and the payloads.
//
// A receive fits a message if both tags agree in the bits of the receive's mask, and if the receive
// names the source of the message or accepts any source. The oldest receive that fits a message
// gets the message, and a receive gets the oldest unexpected message that it fits. Two messages of
// one source that fit the same receives are therefore received in the order in which they were
// sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tutti/units.hpp"

namespace tutti::protocol {

class TagMatcher {
 public:
  /// The caller's number of a receive or of a message.
  using Number = std::uint64_t;

  /// The messages that a receive accepts.
  struct Pattern {
    Rank source = kNoRank;  ///< kNoRank: any source
    std::uint64_t tag = 0;
    std::uint64_t mask = UINT64_MAX;  ///< bits of the tag that must agree
  };
  /// The properties of a message by which it is matched.
  struct Envelope {
    Rank source = kNoRank;
    std::uint64_t tag = 0;
  };

  /// Takes the oldest unexpected message that fits the receive, or keeps the receive.
  std::optional<Number> post(Number receive, const Pattern& pattern);
  /// Takes the oldest receive that fits the message, or keeps the message as unexpected.
  std::optional<Number> arrive(Number message, const Envelope& envelope);
  /// Removes a receive that waits for a message; false if the receive was matched or never posted.
  bool cancel(Number receive);

  std::size_t kept_receives() const { return kept_receives_; }
  std::size_t kept_messages() const { return kept_messages_; }

 private:
  /// A waiting receive or an unexpected message. `mask` has a meaning only for a receive.
  struct Entry {
    /// Receives and messages share one running count, so an older entry has a lower `age`.
    std::uint64_t age = 0;
    Number number = 0;
    std::uint64_t tag = 0;
    std::uint64_t mask = UINT64_MAX;
  };
  using Entries = std::vector<Entry>;  ///< oldest first
  using BySource = std::map<Rank, Entries>;

  static Number take(Entries& entries, Entries::iterator at);
  std::optional<Number> take_oldest(const Pattern& pattern);

  BySource receives_;  ///< waiting receives by source; kNoRank: any source
  BySource messages_;
  std::size_t kept_receives_ = 0;
  std::size_t kept_messages_ = 0;
  std::uint64_t age_ = 0;
};

}  // namespace tutti::protocol
