// Model checker: runs a small collective through every order in which its packets can arrive, and
// every set of them that can be lost.
//
// A path is a sequence of choices of the next chunk or message to arrive. Messages of a pair keep
// their order, chunks do not, and time advances only when nothing waits. Paths that deliver the
// same packets to each rank in the same order reach the same state, so only one of them is
// continued. Two further differences have no effect and are not explored:
//   - the moment at which a chunk that changes nothing arrives, such as a duplicate: it is
//     delivered at once;
//   - the order of consecutive chunks at a rank that change nothing but their own mark.
// The effects of a chunk are everything that the rank counts, sends, and sets as its next deadline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/simulation/config.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

struct ExplorerSpec {
  std::uint32_t ranks = 3;
  std::uint32_t chunk_bytes = 32;
  std::uint32_t chains = 1;
  std::uint32_t first_epoch = 1;
  bool always_barrier = false;
  std::uint64_t retain_bytes = 0;
  std::vector<CollectiveSpec> collectives{};
  /// Bit r of lost[i]: chunk i of the multicast chunks does not reach rank r.
  std::vector<std::uint32_t> lost{};
  std::uint64_t max_states = 1'000'000;
};

struct ExplorerReport {
  Status verdict;
  std::uint64_t states = 0;  ///< distinct states
  std::uint64_t ends = 0;    ///< runs that reached the end
  std::uint64_t steps = 0;
  std::uint64_t idle_steps = 0;  ///< arrivals among them that changed nothing
  bool complete = false;         ///< whether all states were seen
  std::string path;              ///< path to a failure: the arrivals in order
};

/// Explores all orders for one set of losses.
ExplorerReport explore(const ExplorerSpec& spec);

/// Explores every set of losses of the first `chunks` chunks at the ranks that do not send them, up
/// to the first failure. The counts are sums.
ExplorerReport explore_all_losses(ExplorerSpec spec, std::uint32_t chunks);

}  // namespace tutti::simulation
