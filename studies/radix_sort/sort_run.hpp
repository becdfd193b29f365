// The radix sort of [Inozemtsev12] 5, 6.8 in virtual time. For each digit, the ranks count their
// keys, gather the histograms, order the keys within each rank and send them to their owners.
// Hosts, or interfaces with wait and enable, carry out the Allgather by the library's task lists;
// the sort waits for the Allgather at once, or orders its keys meanwhile.
//
// Keys are uniform: each rank has equally many of each digit. As in [Inozemtsev12], keys reach
// their owners by one-sided transfers, one for each run of keys between two ranks. The caller gives
// the cost of a rank's own work.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "studies/radix_sort/list_run.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

/// Costs of a rank's own work, which takes equally long on all ranks.
struct SortWork {
  sim::Picoseconds count{};  ///< time to count one key
  sim::Picoseconds local{};  ///< time to move one key to its place in the order of the digit
  sim::Picoseconds route{};  ///< time to process one count of all ranks' histograms
};

struct SortSpec {
  std::uint32_t hosts = 16;
  std::uint32_t ranks_per_host = 8;
  /// Whether the ranks of a host exchange through its memory and one of them communicates for all
  /// [Inozemtsev12] 4.2. Only the communication between hosts then overlaps with work.
  bool hierarchical = false;
  std::uint32_t radix = 2;
  std::uint32_t key_bits = 32;
  std::uint64_t keys = 4096;  ///< number of keys of a rank
  bool overlapped = false;
  SortWork work{};
  ListRunner runner = ListRunner::host;
  std::string algorithm = "standard_exchange";
  std::uint32_t ports = 1;
  ListCosts costs{};
  bool buffer_per_block = false;  ///< whether an eager buffer holds one block, see ListSpec
  /// Number of keys that a host orders between two polls of the Allgather, as in apps/radix_sort.
  std::uint64_t slice_keys = 32768;
  /// Rate of a link: four lanes at quad data rate, as in [Inozemtsev12].
  std::uint64_t bits_per_second = 32'000'000'000;
};

enum class SortPhase : std::uint8_t { count, allgather, local, routes, exchange };
inline constexpr std::size_t kSortPhases = 5;
const char* to_string(SortPhase phase);

struct SortReport {
  sim::Picoseconds time;  ///< time to the last rank's end
  /// Time of each phase, averaged over the ranks. The phase `allgather` is starting and awaiting
  /// the Allgather, without local work.
  std::array<sim::Picoseconds, kSortPhases> phases{};
  std::uint32_t passes = 0;
  ListCounts lists{};
  std::uint64_t key_messages = 0;
  std::uint64_t keys_moved = 0;  ///< number of keys sent to another rank, over all passes
  std::uint64_t events = 0;
  std::uint64_t digest = 0;
};

/// Keys that go from one rank to another in one pass, in the order of their places at the receiver.
struct SortPart {
  std::uint32_t to = 0;
  std::uint64_t keys = 0;
};
/// The parts that rank `from` of `ranks` sends, including the part for itself.
std::vector<SortPart> sort_parts(std::uint32_t from, std::uint32_t ranks, std::uint64_t keys,
                                 std::uint32_t radix);

/// Runs the sort. Error: the numbers are invalid, or the algorithm does not serve that many ranks.
Result<SortReport> run_sort(const SortSpec& spec);

}  // namespace tutti::simulation
