// The radix sort of row C9 in virtual time: for each digit the keys are counted, the histograms
// gathered, the keys put in the order of the digit within each rank, and sent to their owners. The
// Allgather is the library's task lists, carried out by the hosts or by interfaces with wait and
// enable; a sort waits for it at once, or puts its keys in order meanwhile.
//
// Keys are uniform: each rank has as many of each digit as of any other. They go to their owners as
// in the source, by one-sided transfers, one for each run of keys between two ranks. What work of
// its own costs a rank is the caller's to say: it is measured, or a machine's that one has in mind.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "studies/radix_sort/list_run.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

/// A rank's own work, which takes the same time on all.
struct SortWork {
  sim::Picoseconds count{};  ///< of a key, into the histogram
  sim::Picoseconds local{};  ///< of a key, to its place in the order of the digit
  sim::Picoseconds route{};  ///< of a count, of all ranks' histograms
};

struct SortSpec {
  std::uint32_t hosts = 16;
  std::uint32_t ranks_per_host = 8;
  /// The ranks of a host meet in its memory, and one of them speaks for them (C6). What overlaps is
  /// what passes between the hosts.
  bool hierarchical = false;
  std::uint32_t radix = 2;
  std::uint32_t key_bits = 32;
  std::uint64_t keys = 4096;  ///< of a rank
  bool overlapped = false;
  SortWork work{};
  ListRunner runner = ListRunner::host;
  std::string algorithm = "standard_exchange";
  std::uint32_t ports = 1;
  ListCosts costs{};
  bool buffer_per_block = false;  ///< see ListSpec
  /// host: keys put in order between two looks at the Allgather, as apps/radix_sort does it.
  std::uint64_t slice_keys = 32768;
  std::uint64_t bits_per_second = 32'000'000'000;  ///< the source's: four lanes, quad data rate
};

enum class SortPhase : std::uint8_t { count, allgather, local, routes, exchange };
inline constexpr std::size_t kSortPhases = 5;
const char* to_string(SortPhase phase);

struct SortReport {
  sim::Picoseconds time;  ///< to the last rank's end
  /// The mean of the ranks. allgather: calling it and waiting for it, local work apart.
  std::array<sim::Picoseconds, kSortPhases> phases{};
  std::uint32_t passes = 0;
  ListCounts lists{};
  std::uint64_t key_messages = 0;
  std::uint64_t keys_moved = 0;  ///< to another rank, all passes together
  std::uint64_t events = 0;
  std::uint64_t digest = 0;
};

/// Keys that go from one rank to another in one pass; in the order of their places there.
struct SortPart {
  std::uint32_t to = 0;
  std::uint64_t keys = 0;
};
/// What rank `from` of `ranks` sends, itself included.
std::vector<SortPart> sort_parts(std::uint32_t from, std::uint32_t ranks, std::uint64_t keys,
                                 std::uint32_t radix);

/// Refused where the numbers make no sort, or the algorithm does not serve so many ranks.
Result<SortReport> run_sort(const SortSpec& spec);

}  // namespace tutti::simulation
