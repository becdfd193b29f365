// The radix sort. Each pass has a histogram, an Allgather of all histograms, a local
// redistribution, and an exchange of keys between the ranks. The redistribution does not need the
// other ranks' histograms, so the overlapped variant does it during the Allgather; the blocking
// variant waits for the Allgather first.
#pragma once

#include <tutti/communicator.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exchange.hpp"
#include "routes.hpp"

namespace radix_sort {

enum class Variant : std::uint8_t { blocking, overlapped };
inline constexpr std::size_t kVariants = 2;

/// The thread that makes the Allgather progress during the local redistribution.
enum class Progress : std::uint8_t {
  thread,  ///< library's progress thread
  test,    ///< the sort itself by calls of Request::test, which wake no thread
};

/// The timed phases of a sort.
enum class Phase : std::uint8_t {
  count,      ///< the histogram
  allgather,  ///< start of the Allgather and the wait for its end
  local,      ///< redistribution of keys by digit within the rank
  routes,     ///< computation of the targets of keys from all histograms
  exchange,   ///< transfer of keys to their new ranks
  place,      ///< placement of received keys
};
inline constexpr std::size_t kPhases = 6;
inline constexpr std::array<const char*, kPhases> kPhaseNames = {"count",  "allgather", "local",
                                                                 "routes", "exchange",  "place"};

using PhaseTimes = std::array<std::chrono::nanoseconds, kPhases>;

struct SorterOptions {
  std::uint32_t radix = 256;
  /// Size of the largest block of one Alltoall, in bytes; see Exchange.
  std::uint64_t piece_bytes = 0;
  std::string allgather;  ///< algorithm of the Allgather; empty: chosen by the library
  std::string alltoall;
  Progress progress = Progress::test;
};

/// The sort of one rank. `Key` is std::uint32_t or std::uint64_t.
template <typename Key>
class Sorter {
 public:
  /// Creates a sorter; a collective. `keys_of_rank` holds the number of keys on each rank. Error:
  /// the algorithm is unknown, or memory is short (resource_exhausted).
  static tutti::Result<std::unique_ptr<Sorter>> create(tutti::Communicator& communicator,
                                                       std::vector<std::uint64_t> keys_of_rank,
                                                       const SorterOptions& options);

  /// Sorts the keys of all ranks in ascending order over the ranks; a collective.
  tutti::Status sort(std::vector<Key>& keys, Variant variant);

  std::uint32_t passes() const { return passes_; }
  /// The durations of this rank's phases in the last sort.
  const PhaseTimes& times() const { return times_; }
  /// The duration of this rank's Allgather in each pass of the last sort.
  std::span<const std::chrono::nanoseconds> allgather_times() const { return allgather_times_; }
  const Exchange& exchange() const { return exchange_; }

 private:
  Sorter(tutti::Communicator& communicator, std::vector<std::uint64_t> keys_of_rank,
         const SorterOptions& options);
  tutti::Status prepare(tutti::Communicator& communicator);
  tutti::Status run_pass(std::vector<Key>& keys, std::uint32_t pass, Variant variant);
  void count(std::span<const Key> keys, std::uint32_t pass);
  /// Orders the keys of a pass, and calls test() on `meanwhile` between batches of keys unless it
  /// is null.
  void order_locally(std::span<const Key> keys, std::uint32_t pass, tutti::Request* meanwhile);
  void place(std::span<Key> keys);

  SorterOptions options_;
  std::uint32_t passes_;
  Routes routes_;
  Exchange exchange_;
  std::vector<std::uint32_t> counts_;      ///< histogram of this rank
  std::vector<std::uint32_t> all_counts_;  ///< histograms of all ranks
  /// Next free position of each bucket while keys are moved.
  std::vector<std::uint64_t> starts_;
  std::vector<Key> ordered_;         ///< keys of this rank in digit order
  std::vector<Key> arrived_;         ///< received keys, ordered by source rank
  std::vector<std::uint64_t> next_;  ///< position in arrived_ of the next key of each source
  /// Prepared Allgather of each variant. All passes use the same one, so it is planned and checked
  /// once.
  std::array<std::optional<tutti::Prepared>, kVariants> allgather_;
  PhaseTimes times_{};
  std::vector<std::chrono::nanoseconds> allgather_times_;  ///< duration of the Allgather, by pass
};

extern template class Sorter<std::uint32_t>;
extern template class Sorter<std::uint64_t>;

}  // namespace radix_sort
