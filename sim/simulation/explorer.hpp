// Every order in which a few packets can arrive, and every set of them that can be lost: a small
// collective run through all its futures.
//
// A future is a sequence of choices: which waiting chunk or message arrives next. Messages of one
// pair keep their order, chunks do not. Time passes only when nothing is waiting. Two sequences
// that bring each rank the same things in the same order lead to the same state, so that only one
// of them is gone on with. Neither do these make a difference, so that one of them stands for all:
//  - when a chunk arrives that changes nothing at its rank (a repeated one that is there already):
//    it is brought at once, and no future without it is tried;
//  - the order of chunks that follow one another at a rank and cause nothing but their own mark.
// What a chunk caused is seen by all that the rank counts, what it sent and when it wants to be
// called next.
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
  /// Bit r of lost[i]: the i-th chunk that is multicast does not reach rank r.
  std::vector<std::uint32_t> lost{};
  std::uint64_t max_states = 1'000'000;
};

struct ExplorerReport {
  Status verdict;
  std::uint64_t states = 0;  ///< different ones
  std::uint64_t ends = 0;    ///< runs gone through to the end
  std::uint64_t steps = 0;
  std::uint64_t idle_steps = 0;  ///< of them, arrivals that changed nothing
  bool complete = false;         ///< all states were seen
  std::string path;              ///< of a failure: what arrived, in order
};

/// Goes through all orders for one set of losses.
ExplorerReport explore(const ExplorerSpec& spec);

/// For all sets of losses of the first `chunks` chunks at the ranks that do not send them; stops at
/// the first failure. `states` and the rest are sums.
ExplorerReport explore_all_losses(ExplorerSpec spec, std::uint32_t chunks);

}  // namespace tutti::simulation
