// Model checker: runs a small collective through every order in which its packets can arrive and
// every set of packets that can be lost.
//
// A path is a sequence of choices of the next chunk or message to arrive. Messages between two
// ranks arrive in order, chunks in any order; time advances only when no packet is in flight.
//
// Paths that deliver the same packets to each rank in the same order lead to the same state, so the
// explorer continues only one of them. Consecutive chunks that only set bits in a chunk map lead to
// the same state in any order. A chunk without any effect, such as a duplicate, is delivered at
// once.
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
  /// Losses by multicast chunk: bit r of lost[i] means that chunk i does not reach rank r.
  std::vector<std::uint32_t> lost{};
  std::uint64_t max_states = 1'000'000;
};

struct ExplorerReport {
  Status verdict;
  std::uint64_t states = 0;  ///< number of distinct states
  std::uint64_t ends = 0;    ///< number of paths that reached the end of the collective
  std::uint64_t steps = 0;
  std::uint64_t idle_steps = 0;  ///< number of arrivals that had no effect
  bool complete = false;         ///< whether every state was explored
  std::string path;              ///< arrivals that lead to the failure, in order
};

/// Explores every order of arrival for one set of losses.
ExplorerReport explore(const ExplorerSpec& spec);

/// Explores every set of losses of the first `chunks` chunks at the receivers, and stops at the
/// first failure. The report's counts are sums over all explored sets.
ExplorerReport explore_all_losses(ExplorerSpec spec, std::uint32_t chunks);

}  // namespace tutti::simulation
