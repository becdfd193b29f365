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
  drop,   ///< lost packet: any kind at any site, but reliable frames at the sender only
  delay,  ///< chunk at a receiver held back for the time `by`
  /// Chunk at a receiver held back until `distance` later chunks have passed, but at most for the
  /// time `by`.
  reorder,
  duplicate,  ///< packet delivered twice: chunks at either site, reliable frames at the sender
  corrupt,    ///< chunk at a receiver with one flipped bit in payload or tag
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
  /// Share of the packets meeting the conditions that the rule strikes, in parts per million.
  std::uint32_t rate_ppm = 1'000'000;
  std::optional<Interval> epochs{};  ///< collectives whose packets the rule strikes; chunks only
  std::optional<Interval> psns{};    ///< PSNs that the rule strikes; chunks only
  std::optional<Rank> source{};      ///< rank whose packets the rule strikes; unset: any sender
  std::vector<Rank> ranks{};         ///< receivers at which the rule strikes; empty: all
  /// Number of first copies of a packet that the rule strikes; 0: all copies.
  std::uint32_t occurrences = 0;
  /// Time for which delay, reorder or duplicate holds a packet back.
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
  /// The plan as text, which parse() reads back to an equal plan.
  std::string to_string() const;
  /// Whether any rule of the plan applies to this kind of packet at this site.
  bool concerns(FaultSite place, Packet packet) const;

  friend bool operator==(const FaultPlan&, const FaultPlan&) = default;
};

/// The rule as text, such as "drop receiver chunk rate=1%".
std::string to_string(const FaultRule& rule);
/// Ok if a decorator can apply the rule; otherwise an error that names the supported forms.
Status check(const FaultRule& rule);

}  // namespace tutti::device::fault
