// The rules of a fault decorator, and their text form.
//
//   seed=7; drop receiver chunk rate=1% ranks=0,2; drop sender chunk psn=17 occurrences=1
//   delay receiver chunk rate=5% by=3ms; reorder receiver chunk rate=10% distance=4
//   duplicate sender reliable rate=2%; drop receiver probe occurrences=3; corrupt receiver chunk
//   epoch=2
//
// A rule consists of an action, a place, a kind of packet, and conditions that a packet must all
// meet. "sender" loses a packet before the network, for all receivers; "receiver" loses it at one
// receiver only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device::fault {

enum class Action : std::uint8_t {
  drop,   ///< any kind, any place; reliable frames at the sender only
  delay,  ///< chunks at a receiver: held back for `by`
  /// Chunks at a receiver: held back until `distance` later ones have passed, or for `by`.
  reorder,
  duplicate,  ///< chunks anywhere, reliable frames at the sender
  corrupt,    ///< chunks at a receiver: flips one bit of payload or tag
};
enum class FaultSite : std::uint8_t { sender, receiver };
enum class Packet : std::uint8_t { chunk, reliable, probe };

/// Numbers from `first` to `last`, inclusive.
struct Interval {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  bool contains(std::uint32_t value) const { return first <= value && value <= last; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

struct FaultRule {
  Action action = Action::drop;
  FaultSite place = FaultSite::receiver;
  Packet packet = Packet::chunk;
  /// Share of the packets that meet the conditions, in parts per million.
  std::uint32_t rate_ppm = 1'000'000;
  std::optional<Interval> epochs{};  ///< chunks only
  std::optional<Interval> psns{};    ///< chunks only
  std::optional<Rank> source{};      ///< the sending rank
  std::vector<Rank> ranks{};         ///< the receiving ranks; empty: all
  std::uint32_t occurrences = 0;     ///< only this many first copies of a packet; 0: all
  Nanoseconds by{0};                 ///< delay, reorder, duplicate: how long the packet is held
  std::uint32_t distance = 0;        ///< reorder: number of chunks that overtake

  friend bool operator==(const FaultRule&, const FaultRule&) = default;
};

struct FaultPlan {
  std::uint64_t seed = 1;
  std::vector<FaultRule> rules{};

  /// Reads the text form; ';' or line ends separate statements. Error (invalid_argument): names the
  /// statement and the accepted forms.
  static Result<FaultPlan> parse(std::string_view text);
  /// The text form; parse() reads it back to an equal plan.
  std::string to_string() const;
  /// Whether any rule applies to this kind of packet at this place.
  bool concerns(FaultSite place, Packet packet) const;

  friend bool operator==(const FaultPlan&, const FaultPlan&) = default;
};

/// "drop receiver chunk rate=1%".
std::string to_string(const FaultRule& rule);
/// Whether a decorator can apply the rule; the error names the supported forms.
Status check(const FaultRule& rule);

}  // namespace tutti::device::fault
