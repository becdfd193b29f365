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

/// True if one rank, the root, sends or receives the whole message of the collective.
constexpr bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::gather ||
         collective == Collective::scatter || collective == Collective::reduce;
}
constexpr bool reduces(Collective collective) {
  return collective == Collective::reduce || collective == Collective::reduce_scatter ||
         collective == Collective::allreduce;
}

/// The name of an algorithm; `tutti explain` lists the names for each collective. A call with an
/// unknown name fails, and its error lists the valid names.
class Algorithm {
 public:
  static const Algorithm automatic;  ///< chosen from the algorithm table
  static const Algorithm multicast;  ///< reliable multicast [Khalilov24]
  static const Algorithm ring;       ///< P-1 steps between neighbours; Broadcast: a chain

  constexpr Algorithm() = default;
  /// `name` is not copied: it must stay valid until the call that uses this object returns.
  constexpr Algorithm(std::string_view name) : name_(name) {}  // NOLINT: implicit by design
  constexpr Algorithm(const char* name) : name_(name) {}       // NOLINT: implicit by design
  /// The name; empty for `automatic`.
  constexpr std::string_view name() const { return name_; }
  friend constexpr bool operator==(Algorithm, Algorithm) = default;

 private:
  std::string_view name_;
};
inline constexpr Algorithm Algorithm::automatic{};
inline constexpr Algorithm Algorithm::multicast{"multicast"};
inline constexpr Algorithm Algorithm::ring{"ring"};

/// Options of one collective call.
struct CollectiveOptions {
  Algorithm algorithm = Algorithm::automatic;
  /// A hint that the caller waits at once, so that the progress thread need not wake up.
  bool will_wait = false;
  // Parameters of the algorithms that have them. 0: the library chooses. All ranks must pass the
  // same.
  std::uint32_t ports = 0;     ///< ports k of the k-port algorithms
  std::uint32_t radix = 0;     ///< radix of the k-nomial trees
  std::uint32_t segments = 0;  ///< number of segments of a pipelined message
};

/// One collective call, for Communicator::start and Communicator::prepare. The collective
/// determines which fields are used and the sizes of the buffers; its function in Communicator
/// documents them.
struct CollectiveCall {
  Collective collective = Collective::barrier;
  std::span<const std::byte> send{};  ///< broadcast: not used
  std::span<std::byte> receive{};
  Rank root{0};
  Reduction reduction{};
  /// For Allgatherv: the size of each rank's block and its offset in `receive`.
  std::span<const std::uint64_t> sizes_bytes{};
  std::span<const std::uint64_t> offsets_bytes{};
  CollectiveOptions options{};
};

}  // namespace tutti
