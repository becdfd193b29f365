// The sort: for each digit a histogram, an Allgather of all histograms, a redistribution within the
// rank, and an exchange of keys between the ranks (row C9). The redistribution needs no other
// rank's histogram, so that it can be done while the Allgather is under way; that is all that the
// two variants differ in.
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

/// Who moves the Allgather on while keys are moved.
enum class Progress : std::uint8_t {
  thread,  ///< the library's own: the sort does not call it
  test,    ///< the sort, which calls Request::test now and then: no other thread has to be woken
};

/// The parts of a sort that are timed.
enum class Phase : std::uint8_t {
  count,      ///< the histogram
  allgather,  ///< starting it and waiting for it
  local,      ///< keys in the order of the digit within the rank
  routes,     ///< from all histograms, where which keys go
  exchange,   ///< keys to their owners
  place,      ///< what arrived, in order
};
inline constexpr std::size_t kPhases = 6;
inline constexpr std::array<const char*, kPhases> kPhaseNames = {"count",  "allgather", "local",
                                                                 "routes", "exchange",  "place"};

using PhaseTimes = std::array<std::chrono::nanoseconds, kPhases>;

struct SorterOptions {
  std::uint32_t radix = 256;
  std::uint64_t piece_bytes = 0;  ///< see Exchange
  std::string allgather;          ///< algorithm; empty: the library chooses
  std::string alltoall;
  Progress progress = Progress::test;
};

/// Keys of type std::uint32_t or std::uint64_t.
template <typename Key>
class Sorter {
 public:
  /// `keys_of_rank`: how many keys each rank sorts. Fails where a call cannot be made: an unknown
  /// algorithm, say. No `std::bad_alloc`: Code::resource_exhausted. Collective.
  static tutti::Result<std::unique_ptr<Sorter>> create(tutti::Communicator& communicator,
                                                       std::vector<std::uint64_t> keys_of_rank,
                                                       const SorterOptions& options);

  /// Sorts the ranks' keys, as they lie one after the other, into ascending order. Collective.
  tutti::Status sort(std::vector<Key>& keys, Variant variant);

  std::uint32_t passes() const { return passes_; }
  /// Of this rank, in the last sort.
  const PhaseTimes& times() const { return times_; }
  /// Of the same: what it spent in the Allgather of each pass.
  std::span<const std::chrono::nanoseconds> allgather_times() const { return allgather_times_; }
  const Exchange& exchange() const { return exchange_; }

 private:
  Sorter(tutti::Communicator& communicator, std::vector<std::uint64_t> keys_of_rank,
         const SorterOptions& options);
  tutti::Status prepare(tutti::Communicator& communicator);
  tutti::Status run_pass(std::vector<Key>& keys, std::uint32_t pass, Variant variant);
  void count(std::span<const Key> keys, std::uint32_t pass);
  /// `meanwhile`: what to test now and then; null: nothing.
  void order_locally(std::span<const Key> keys, std::uint32_t pass, tutti::Request* meanwhile);
  void place(std::span<Key> keys);

  SorterOptions options_;
  std::uint32_t passes_;
  Routes routes_;
  Exchange exchange_;
  std::vector<std::uint32_t> counts_;      ///< this rank's histogram
  std::vector<std::uint32_t> all_counts_;  ///< every rank's
  std::vector<std::uint64_t> starts_;      ///< of each bucket, while keys are moved
  std::vector<Key> ordered_;               ///< this rank's keys in the order of the digit
  std::vector<Key> arrived_;               ///< its new ones by the rank that they come from
  std::vector<std::uint64_t> next_;        ///< of each source in arrived_, while placing
  /// The Allgather is the same in every pass, so it is looked up and checked once (C3).
  std::array<std::optional<tutti::Prepared>, kVariants> allgather_;
  PhaseTimes times_{};
  std::vector<std::chrono::nanoseconds> allgather_times_;  ///< by pass
};

extern template class Sorter<std::uint32_t>;
extern template class Sorter<std::uint64_t>;

}  // namespace radix_sort
