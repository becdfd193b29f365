#include "explain/choice.hpp"

#include <limits>

namespace tutti::app {
namespace {

/// Collectives up to these bounds are carried out by this algorithm.
struct Rule {
  std::uint32_t max_ranks;
  std::uint64_t max_send_bytes;
  Algorithm algorithm;
  const char* reason;
};

constexpr std::uint32_t kAnyRanks = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kAnyBytes = std::numeric_limits<std::uint64_t>::max();

// What Communicator does with Algorithm::automatic; the two must agree.
constexpr Rule kRules[] = {
    {kAnyRanks, kAnyBytes, Algorithm::multicast,
     "`automatic` is multicast for every size and number of ranks: each block leaves its sender "
     "once, whatever the number of receivers"},
};

}  // namespace

Choice choose(Operation, std::uint32_t ranks, std::uint64_t send_bytes) {
  for (const Rule& rule : kRules) {
    if (ranks <= rule.max_ranks && send_bytes <= rule.max_send_bytes) {
      return {rule.algorithm, rule.reason};
    }
  }
  return {};
}

}  // namespace tutti::app
