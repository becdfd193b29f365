// The algorithm table: chooses the algorithm of a call by the first rule that matches; each rule
// states its reason. The environment (`TUTTI_ALGORITHMS`), a file or the call can override parts of
// the table.
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

/// The inputs of a choice, which must be equal on all ranks.
struct Situation {
  schedule::Collective collective = schedule::Collective::barrier;
  std::uint32_t ranks = 1;
  std::uint32_t hosts = 1;
  /// Bytes of the message for Broadcast and reductions; for other collectives, bytes of one rank's
  /// block.
  std::uint64_t block_bytes = 0;
  std::string_view device{};  ///< name of the device that moves the bytes: "ip", "host"
  bool multicast = true;      ///< whether the network passes multicast to every rank
};

struct Choice {
  std::string algorithm;
  schedule::Parameters parameters;
  std::string reason;
};

/// Limits rules that `tutti tune` measured: they apply only to the number of ranks, the number of
/// hosts and the device of that measurement.
struct ChoicePlace {
  static constexpr std::string_view kWhen = "when";

  std::optional<std::uint32_t> ranks;
  std::optional<std::uint32_t> hosts;
  std::string_view device{};  ///< name of the device, a string literal; "" for any device
  bool matches(const Situation& situation) const;
};

/// The text of a ChoicePlace, as written before the rules that it limits:
/// "when:ranks=4:hosts=1:device=ip".
std::string to_string(const ChoicePlace& place);

/// One rule of the table. The rule chooses the algorithm of every call that meets all conditions of
/// the rule.
struct ChoiceRule {
  static constexpr std::uint32_t kAnyRanks = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint64_t kAnyBytes = std::numeric_limits<std::uint64_t>::max();

  schedule::Collective collective = schedule::Collective::barrier;
  std::uint32_t max_ranks = kAnyRanks;
  std::uint64_t max_block_bytes = kAnyBytes;
  std::string_view device{};     ///< name of the device, a string literal; "" for any device
  bool needs_multicast = false;  ///< whether the rule needs a network that passes multicast
  /// Further condition: the number of ranks, the number of hosts and the device of the call must be
  /// those with which the rule was measured.
  ChoicePlace place{};
  Choice choice;

  bool matches(const Situation& situation) const;
};

class ChoiceTable {
 public:
  /// The built-in table, which follows from measurements (docs/results.md).
  static ChoiceTable defaults();

  /// Puts rules before the existing ones. Fails with invalid_argument for an unknown algorithm; the
  /// error lists the algorithms of the collective.
  Status prefer(std::vector<ChoiceRule> rules);
  /// Puts the rules of a text before the existing ones, for example
  /// "allgather=ring,broadcast=chain:segments=16,allreduce[65536]=ring". A size in brackets is the
  /// largest block size in bytes to which the rule applies. A part "when:ranks=4:hosts=1:device=ip"
  /// limits the rules after it, up to the next `when`. The algorithm "automatic" leaves the choice
  /// to the built-in table.
  Status prefer(std::string_view text);

  /// The choice of the first rule that matches; the built-in table has a rule for every situation.
  const Choice& choose(const Situation& situation) const;
  /// Returns a block size in bytes, at least `block_bytes`. Calls with block sizes from
  /// `block_bytes` to the result match the same rules if their ranks, hosts and devices are equal.
  std::uint64_t constant_up_to(schedule::Collective collective, std::uint64_t block_bytes) const;
  /// True if the first rule that matches is a preference, which means that `prefer` put it before
  /// the built-in table.
  bool prefers(const Situation& situation) const;
  /// Returns an empty text if at least one preference allows the ranks, hosts and device of
  /// `situation`, or if there are no preferences. Otherwise returns a text that names the ranks,
  /// hosts and devices to which the preferences are limited.
  std::string misplaced(const Situation& situation) const;

  const std::vector<ChoiceRule>& rules() const { return rules_; }
  /// The text of all preferences, as given to `prefer`; ranks with equal texts choose the same
  /// algorithms.
  const std::string& preferred() const { return preferred_; }

 private:
  using Rules = std::vector<ChoiceRule>;
  Rules::const_iterator find(const Situation& situation) const;

  Rules rules_;
  std::ptrdiff_t preferences_ = 0;  ///< number of preferences, which precede the built-in rules
  std::string preferred_;
};

/// The text of a choice, as written in a table: "chain:segments=16".
std::string to_string(const Choice& choice);
/// Parses the text of a choice. Fails unless `collective` has an algorithm with the name in the
/// text.
Result<Choice> parse_choice(schedule::Collective collective, std::string_view text);

/// Returns `parameters`. If `entry` uses segments and their number in `parameters` is the default,
/// the result has a number of segments that suits `ranks` and `bytes`.
schedule::Parameters suited(const AlgorithmEntry& entry, schedule::Parameters parameters,
                            std::uint32_t ranks, std::uint64_t bytes);

/// Number of segments into which a chain of `ranks` ranks should cut a message of `bytes`.
std::uint32_t pipeline_segments(std::uint32_t ranks, std::uint64_t bytes);

}  // namespace tutti::collectives
