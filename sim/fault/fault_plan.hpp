// The rules of a fault decorator, and their text form.
//
//   seed=7; drop receiver chunk rate=1% ranks=0,2; drop sender chunk psn=17 occurrences=1
//   delay receiver chunk rate=5% by=3ms; reorder receiver chunk rate=10% distance=4
//   duplicate sender reliable rate=2%; drop receiver probe occurrences=3; corrupt receiver chunk
//   epoch=2
//
// A rule consists of an action, a site, a kind of packet, and conditions. The rule applies to
// packets that meet all its conditions. At the site "sender", a packet is lost before it enters the
// network, so no receiver gets it; at the site "receiver", only one receiver loses it.
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
  drop,   ///< the packet is lost; reliable frames can be lost only at the sender
  delay,  ///< the receiver gets the chunk after an extra delay of `by`
  /// The receiver gets the chunk after `distance` later chunks or after a delay of `by`, whichever
  /// comes first.
  reorder,
  duplicate,  ///< the packet arrives twice; reliable frames can be duplicated only at the sender
  corrupt,    ///< the receiver gets the chunk with one wrong bit in payload or tag
};
enum class FaultSite : std::uint8_t { sender, receiver };
enum class Packet : std::uint8_t { chunk, reliable, probe };

/// The numbers from `first` to `last`, both included.
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
  /// Probability that the rule strikes a packet that meets its conditions, in parts per million.
  std::uint32_t rate_ppm = 1'000'000;
  /// The rule strikes chunks of the collectives with these epochs; unset: of all collectives.
  std::optional<Interval> epochs{};
  std::optional<Interval> psns{};  ///< PSNs of the chunks that the rule strikes; unset: all
  std::optional<Rank> source{};    ///< sender of the packets that the rule strikes; unset: any
  std::vector<Rank> ranks{};       ///< receiving ranks at which the rule strikes; empty: all
  /// The rule strikes only the first `occurrences` copies of each packet; 0: all copies.
  std::uint32_t occurrences = 0;
  /// Extra delay of a chunk. If the rule duplicates the chunk at the receiver, only the second copy
  /// is delayed; a reorder rule delays the chunk for at most this time.
  Nanoseconds by{0};
  std::uint32_t distance = 0;  ///< number of chunks that must overtake a reordered chunk

  friend bool operator==(const FaultRule&, const FaultRule&) = default;
};

struct FaultPlan {
  std::uint64_t seed = 1;
  std::vector<FaultRule> rules{};

  /// Parses the text form, in which ';' and line ends separate statements. Error
  /// (invalid_argument): names the wrong statement and the accepted forms.
  static Result<FaultPlan> parse(std::string_view text);
  /// The plan as text, from which parse() makes an equal plan.
  std::string to_string() const;
  /// Whether any rule of the plan applies to this kind of packet at this site.
  bool concerns(FaultSite place, Packet packet) const;

  friend bool operator==(const FaultPlan&, const FaultPlan&) = default;
};

/// The rule as text, such as "drop receiver chunk rate=1%".
std::string to_string(const FaultRule& rule);
/// Checks that a decorator can apply the rule. The error names the supported forms.
Status check(const FaultRule& rule);

}  // namespace tutti::device::fault
