// The radix sort. A pass counts the keys by digit, gathers these histograms on all ranks, orders
// the local keys by digit and exchanges keys between the ranks. Ordering the local keys does not
// need the other ranks' histograms. The overlapped variant therefore orders its keys during the
// Allgather, while the blocking variant first waits for the Allgather.
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

/// How the Allgather makes progress while this rank orders its local keys.
enum class Progress : std::uint8_t {
  thread,  ///< the library's progress thread advances the Allgather
  test,    ///< this rank calls Request::test between batches of keys; no second thread is needed
};

/// The timed phases of a sort.
enum class Phase : std::uint8_t {
  count,      ///< counting of the keys by digit
  allgather,  ///< start of the Allgather of the histograms, and the wait for its end
  local,      ///< sorting of this rank's own keys by digit
  routes,     ///< computation of the keys' target ranks from all histograms
  exchange,   ///< transfer of keys to their new ranks
  place,      ///< copying of received keys to their positions
};
inline constexpr std::size_t kPhases = 6;
inline constexpr std::array<const char*, kPhases> kPhaseNames = {"count",  "allgather", "local",
                                                                 "routes", "exchange",  "place"};

using PhaseTimes = std::array<std::chrono::nanoseconds, kPhases>;

struct SorterOptions {
  std::uint32_t radix = 256;
  /// Largest block that one Alltoall of the exchange sends, in bytes.
  std::uint64_t piece_bytes = 0;
  std::string allgather;  ///< algorithm of the Allgather; empty: chosen by the library
  std::string alltoall;
  Progress progress = Progress::test;
};

/// One rank's part of the sort. `Key` is std::uint32_t or std::uint64_t.
template <typename Key>
class Sorter {
 public:
  /// Creates the sorter of this rank. `keys_of_rank` holds the number of keys on each rank. Error:
  /// an algorithm is unknown, or memory is short (resource_exhausted).
  static tutti::Result<std::unique_ptr<Sorter>> create(tutti::Communicator& communicator,
                                                       std::vector<std::uint64_t> keys_of_rank,
                                                       const SorterOptions& options);

  /// Sorts the keys of all ranks, so that they ascend within each rank and from rank to rank; every
  /// rank must call it. `keys` are this rank's keys before and after the sort.
  tutti::Status sort(std::vector<Key>& keys, Variant variant);

  std::uint32_t passes() const { return passes_; }
  /// The time that this rank spent in each phase of the last sort.
  const PhaseTimes& times() const { return times_; }
  /// The time that this rank spent in the Allgather of the last sort, indexed by pass.
  std::span<const std::chrono::nanoseconds> allgather_times() const { return allgather_times_; }
  const Exchange& exchange() const { return exchange_; }

 private:
  Sorter(tutti::Communicator& communicator, std::vector<std::uint64_t> keys_of_rank,
         const SorterOptions& options);
  tutti::Status prepare(tutti::Communicator& communicator);
  tutti::Status run_pass(std::vector<Key>& keys, std::uint32_t pass, Variant variant);
  void count(std::span<const Key> keys, std::uint32_t pass);
  /// Orders this rank's keys by the digit of the pass. Between batches of keys it calls
  /// `meanwhile->test()`, unless `meanwhile` is null.
  void order_locally(std::span<const Key> keys, std::uint32_t pass, tutti::Request* meanwhile);
  void place(std::span<Key> keys);

  SorterOptions options_;
  std::uint32_t passes_;
  Routes routes_;
  Exchange exchange_;
  std::vector<std::uint32_t> counts_;      ///< histogram of this rank
  std::vector<std::uint32_t> all_counts_;  ///< histograms of all ranks
  /// Next free position in ordered_ for each digit, while the keys are ordered.
  std::vector<std::uint64_t> starts_;
  std::vector<Key> ordered_;         ///< keys of this rank in digit order
  std::vector<Key> arrived_;         ///< received keys, ordered by source rank
  std::vector<std::uint64_t> next_;  ///< position in arrived_ of the next key from each source rank
  /// One prepared Allgather of the histograms for each variant of the sort, started once in every
  /// pass of that variant.
  std::array<std::optional<tutti::Prepared>, kVariants> allgather_;
  PhaseTimes times_{};
  /// Time in the Allgather, indexed by pass.
  std::vector<std::chrono::nanoseconds> allgather_times_;
};

extern template class Sorter<std::uint32_t>;
extern template class Sorter<std::uint64_t>;

}  // namespace radix_sort
