// Chooses the algorithm of a call from one table, in which the first match wins and each row states
// its reason. The environment (`TUTTI_ALGORITHMS`), a file or the call can override parts of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/registry.hpp"
#include "schedule/schedule.hpp"
#include "tutti/status.hpp"

namespace tutti::collectives {

/// The inputs of a choice; equal on all ranks.
struct Situation {
  schedule::Collective collective = schedule::Collective::barrier;
  std::uint32_t ranks = 1;
  std::uint32_t hosts = 1;
  /// Broadcast, reductions: the message size; otherwise the size of one rank's block.
  std::uint64_t block_bytes = 0;
  std::string_view device{};  ///< the device that moves the bytes: "ip", "host"
};

struct Choice {
  std::string algorithm;
  schedule::Parameters parameters;
  std::string reason;
};

/// The ranks, hosts and device for which `tutti tune` measured a table, and to which it is limited.
struct ChoicePlace {
  static constexpr std::string_view kWhen = "when";

  std::optional<std::uint32_t> ranks;
  std::optional<std::uint32_t> hosts;
  std::string_view device{};  ///< string literal; "" for any device

  bool anywhere() const { return !ranks && !hosts && device.empty(); }
  bool matches(const Situation& situation) const;
};

/// "when:ranks=4:hosts=1:device=ip", as written before the rules of a table.
std::string to_string(const ChoicePlace& place);

/// Chooses an algorithm for calls up to these bounds.
struct ChoiceRule {
  static constexpr std::uint32_t kAnyRanks = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint64_t kAnyBytes = std::numeric_limits<std::uint64_t>::max();

  schedule::Collective collective = schedule::Collective::barrier;
  std::uint32_t max_ranks = kAnyRanks;
  std::uint64_t max_block_bytes = kAnyBytes;
  std::string_view device{};  ///< string literal; "" for any device
  ChoicePlace place{};        ///< further condition beside `device`
  Choice choice;

  bool matches(const Situation& situation) const;
};

class ChoiceTable {
 public:
  /// The built-in table, from measurements (docs/results.md).
  static ChoiceTable defaults();

  /// Puts rules before the existing ones. Errors (invalid_argument): an unknown algorithm; the
  /// error lists those of the collective.
  Status prefer(std::vector<ChoiceRule> rules);
  /// Puts the rules of a text before the existing ones, for example
  /// "allgather=ring,broadcast=chain:segments=16,allreduce[65536]=ring": each for any number of
  /// ranks and any size, or for blocks up to the size in brackets. A part
  /// "when:ranks=4:hosts=1:device=ip" limits the rules after it, up to the next such part. The
  /// algorithm "automatic" is the choice of the defaults.
  Status prefer(std::string_view text);

  /// The first rule that matches; every situation has one.
  const Choice& choose(const Situation& situation) const;
  /// The block size up to which the choice stays that for `block_bytes`, whatever else varies.
  std::uint64_t constant_up_to(schedule::Collective collective, std::uint64_t block_bytes) const;
  /// Whether the choice comes from a preference.
  bool prefers(const Situation& situation) const;
  /// Whether any preference applies at every place.
  bool prefers_anywhere() const;
  /// If all preferences are for other places than this one: a text that names those places.
  /// Otherwise "".
  std::string misplaced(const Situation& situation) const;

  const std::vector<ChoiceRule>& rules() const { return rules_; }
  /// The text of the preferences; ranks with equal text choose alike.
  const std::string& preferred() const { return preferred_; }

 private:
  using Rules = std::vector<ChoiceRule>;
  Rules::const_iterator find(const Situation& situation) const;

  Rules rules_;
  std::ptrdiff_t preferences_ = 0;  ///< number of preferences at the front of the rules
  std::string preferred_;
};

/// "chain:segments=16", as written in a table.
std::string to_string(const Choice& choice);
/// Parses that text; `collective` must have an algorithm of that name.
Result<Choice> parse_choice(schedule::Collective collective, std::string_view text);

/// Fills in the parameters left at their defaults, for a number of ranks and bytes.
schedule::Parameters suited(const AlgorithmEntry& entry, schedule::Parameters parameters,
                            std::uint32_t ranks, std::uint64_t bytes);

/// Number of segments into which a chain of `ranks` ranks should cut a message.
std::uint32_t pipeline_segments(std::uint32_t ranks, std::uint64_t bytes);

}  // namespace tutti::collectives
