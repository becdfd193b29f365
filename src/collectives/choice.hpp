// Which algorithm carries out a call (C7): one table, first match wins, with the reason beside each
// row. It can be replaced in part by the environment (`TUTTI_ALGORITHMS`), a file, or the call.
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

/// What a choice depends on; the same on all ranks.
struct Situation {
  schedule::Collective collective = schedule::Collective::barrier;
  std::uint32_t ranks = 1;
  std::uint32_t hosts = 1;
  std::uint64_t block_bytes = 0;  ///< Broadcast, reductions: the message; else one rank's block
  std::string_view device{};      ///< what moves the bytes: "ip", "host"
};

struct Choice {
  std::string algorithm;
  schedule::Parameters parameters;
  std::string reason;
};

/// What `tutti tune` measured for: a table is for its ranks, hosts and device alone.
struct ChoicePlace {
  static constexpr std::string_view kWhen = "when";

  std::optional<std::uint32_t> ranks;
  std::optional<std::uint32_t> hosts;
  std::string_view device{};  ///< a literal; "": any

  bool anywhere() const { return !ranks && !hosts && device.empty(); }
  bool matches(const Situation& situation) const;
};

/// "when:ranks=4:hosts=1:device=ip" as it stands before the rules of a table.
std::string to_string(const ChoicePlace& place);

/// Calls up to these bounds are carried out so.
struct ChoiceRule {
  static constexpr std::uint32_t kAnyRanks = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint64_t kAnyBytes = std::numeric_limits<std::uint64_t>::max();

  schedule::Collective collective = schedule::Collective::barrier;
  std::uint32_t min_ranks = 0;
  std::uint32_t max_ranks = kAnyRanks;
  std::uint32_t max_hosts = kAnyRanks;
  std::uint64_t max_block_bytes = kAnyBytes;
  std::string_view device{};  ///< a literal; "": any
  ChoicePlace place{};        ///< beside `device`
  Choice choice;

  bool matches(const Situation& situation) const;
};

class ChoiceTable {
 public:
  /// The table that we ship, from measurements (docs/results.md).
  static ChoiceTable defaults();

  /// Puts rules in front of those that there are. Errors (invalid_argument): a name that the
  /// collective does not have, with those that it has.
  Status prefer(std::vector<ChoiceRule> rules);
  /// The same from a text: "allgather=ring,broadcast=chain:segments=16,allreduce[65536]=ring", each
  /// for any number of ranks and any size, or for blocks of up to so many bytes. A part
  /// "when:ranks=4:hosts=1:device=ip" says what those after it are for, up to the next such part.
  /// The algorithm "automatic" is what the table chooses without any preference.
  Status prefer(std::string_view text);

  /// The first rule that matches; there is one for every situation.
  const Choice& choose(const Situation& situation) const;
  /// Up to how many bytes of a block the choice is that for `block_bytes`, whatever the rest.
  std::uint64_t constant_up_to(schedule::Collective collective, std::uint64_t block_bytes) const;
  /// Whether that is a preference.
  bool prefers(const Situation& situation) const;
  /// Whether there are preferences that are for every place.
  bool prefers_anywhere() const;
  /// Where there are preferences for other places than this one, and none for it: what they are
  /// for, in words; "": all is well.
  std::string misplaced(const Situation& situation) const;

  const std::vector<ChoiceRule>& rules() const { return rules_; }
  /// What was preferred by text: ranks that agree on it choose alike.
  const std::string& preferred() const { return preferred_; }

 private:
  using Rules = std::vector<ChoiceRule>;
  Rules::const_iterator find(const Situation& situation) const;

  Rules rules_;
  std::ptrdiff_t preferences_ = 0;  ///< the first so many rules
  std::string preferred_;
};

/// "chain:segments=16" as it stands in a table.
std::string to_string(const Choice& choice);
/// Reads that; `collective` must have an algorithm of that name.
Result<Choice> parse_choice(schedule::Collective collective, std::string_view text);

/// Parameters with what they leave open settled for so many ranks and bytes.
schedule::Parameters suited(const AlgorithmEntry& entry, schedule::Parameters parameters,
                            std::uint32_t ranks, std::uint64_t bytes);

/// Pieces of a pipelined message: what a chain of so many ranks should cut it into.
std::uint32_t pipeline_segments(std::uint32_t ranks, std::uint64_t bytes);

}  // namespace tutti::collectives
