// The radix sort of [Inozemtsev12] 5, 6.8 in virtual time. For each digit, the ranks count their
// keys, gather the histograms, order the keys within each rank and send the keys to their owners.
//
// Hosts, or interfaces with wait and enable, carry out the Allgather of the histograms by the
// library's schedules. A rank waits for the Allgather at once or, with `overlapped`, orders its
// keys meanwhile.
//
// Keys are uniform: each rank has the same number of keys with each digit. As in [Inozemtsev12],
// keys reach their owners by one-sided transfers, one for each run of keys between two ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "studies/radix_sort/list_run.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

/// Times of the work that each rank does alone. They are equal on all ranks.
struct SortWork {
  sim::Picoseconds count{};  ///< time to count one key
  sim::Picoseconds local{};  ///< time to move one key to its place in the order of the digit
  sim::Picoseconds route{};  ///< time to process one count in the gathered histograms
};

struct SortSpec {
  std::uint32_t hosts = 16;
  std::uint32_t ranks_per_host = 8;
  /// Whether the ranks of a host exchange histograms through the host's memory, while the leader
  /// communicates with other hosts for all ranks of its host [Inozemtsev12] 4.2. Only the
  /// communication between hosts then overlaps with work.
  bool hierarchical = false;
  std::uint32_t radix = 2;
  std::uint32_t key_bits = 32;
  std::uint64_t keys = 4096;  ///< number of keys of each rank
  bool overlapped = false;
  SortWork work{};
  ListRunner runner = ListRunner::host;
  std::string algorithm = "standard_exchange";
  std::uint32_t ports = 1;
  ListCosts costs{};
  /// Whether an eager buffer has room for only one block; see ListSpec.
  bool buffer_per_block = false;
  /// Number of keys that a host orders between two polls of the Allgather, as in apps/radix_sort.
  std::uint64_t slice_keys = 32768;
  /// Rate of a link: four lanes at quad data rate, as in [Inozemtsev12].
  std::uint64_t bits_per_second = 32'000'000'000;
};

enum class SortPhase : std::uint8_t { count, allgather, local, routes, exchange };
inline constexpr std::size_t kSortPhases = 5;
const char* to_string(SortPhase phase);

struct SortReport {
  sim::Picoseconds time;  ///< time until the last rank ends
  /// Time of each phase, averaged over the ranks. The phase `allgather` consists of starting the
  /// Allgather and waiting for it, without local work.
  std::array<sim::Picoseconds, kSortPhases> phases{};
  std::uint32_t passes = 0;
  ListCounts lists{};
  std::uint64_t key_messages = 0;
  std::uint64_t keys_moved = 0;  ///< number of keys sent to another rank, over all passes
  std::uint64_t events = 0;
  std::uint64_t digest = 0;
};

/// A key run: the keys of one digit that one rank sends to one rank in one pass.
struct SortPart {
  std::uint32_t to = 0;
  std::uint64_t keys = 0;
};
/// The key runs that rank `from` of `ranks` sends in one pass, including those to itself.
std::vector<SortPart> sort_parts(std::uint32_t from, std::uint32_t ranks, std::uint64_t keys,
                                 std::uint32_t radix);

/// Runs the sort. Fails if a field of `spec` is invalid, or if the algorithm does not support the
/// number of ranks.
Result<SortReport> run_sort(const SortSpec& spec);

}  // namespace tutti::simulation
