// The collectives, and the description of one call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tutti/reduction.hpp"
#include "tutti/units.hpp"

namespace tutti {

enum class Collective : std::uint8_t {
  barrier,
  broadcast,
  allgather,
  allgatherv,
  gather,
  scatter,
  alltoall,
  reduce,
  reduce_scatter,
  allreduce,
};
inline constexpr std::uint32_t kCollectives = 10;

constexpr const char* to_string(Collective collective) {
  constexpr std::array<const char*, kCollectives> kNames = {
      "barrier", "broadcast", "allgather", "allgatherv",     "gather",
      "scatter", "alltoall",  "reduce",    "reduce_scatter", "allreduce"};
  return kNames[static_cast<std::size_t>(collective)];
}

/// Whether one rank, the root, sends or receives the whole message.
constexpr bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::gather ||
         collective == Collective::scatter || collective == Collective::reduce;
}
constexpr bool reduces(Collective collective) {
  return collective == Collective::reduce || collective == Collective::reduce_scatter ||
         collective == Collective::allreduce;
}

/// The algorithm of a collective, by name. `tutti explain` lists the names of each collective; an
/// unknown one fails with an error that lists them.
class Algorithm {
 public:
  static const Algorithm automatic;  ///< chosen from the algorithm table
  static const Algorithm multicast;  ///< reliable multicast [Khalilov24]
  static const Algorithm ring;       ///< P-1 steps between neighbours; Broadcast: a chain

  constexpr Algorithm() = default;
  /// `name` must stay valid during the call that it is used for.
  constexpr Algorithm(std::string_view name) : name_(name) {}  // NOLINT: implicit by design
  constexpr Algorithm(const char* name) : name_(name) {}       // NOLINT: implicit by design
  /// Empty for automatic.
  constexpr std::string_view name() const { return name_; }
  friend constexpr bool operator==(Algorithm, Algorithm) = default;

 private:
  std::string_view name_;
};
inline constexpr Algorithm Algorithm::automatic{};
inline constexpr Algorithm Algorithm::multicast{"multicast"};
inline constexpr Algorithm Algorithm::ring{"ring"};

/// Options of one call.
struct CollectiveOptions {
  Algorithm algorithm = Algorithm::automatic;
  /// The caller waits for this call at once: the background thread need not wake.
  bool will_wait = false;
  // Parameters of algorithms that have them; 0: chosen. The same on all ranks.
  std::uint32_t ports = 0;     ///< k of the k-port algorithms
  std::uint32_t radix = 0;     ///< of k-nomial trees
  std::uint32_t segments = 0;  ///< pieces of a pipelined message
};

/// One call of a collective, for Communicator::start and prepare. The collective decides which
/// fields are used; buffers have the sizes that its function in Communicator documents.
struct CollectiveCall {
  Collective collective = Collective::barrier;
  std::span<const std::byte> send{};  ///< broadcast: not used
  std::span<std::byte> receive{};
  Rank root{0};
  Reduction reduction{};
  /// Allgatherv: the size of each rank's block and where it begins in `receive`.
  std::span<const std::uint64_t> sizes_bytes{};
  std::span<const std::uint64_t> offsets_bytes{};
  CollectiveOptions options{};
};

}  // namespace tutti
