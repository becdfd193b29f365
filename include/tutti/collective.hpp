// The collectives, the algorithms that carry them out, and the arguments of one call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tutti/priority.hpp"
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
  gatherv,
  scatterv,
  alltoallv,
  reduce_scatterv,
};
inline constexpr std::uint32_t kCollectives = 14;

constexpr const char* to_string(Collective collective) {
  constexpr std::array<const char*, kCollectives> kNames = {
      "barrier", "broadcast", "allgather", "allgatherv",     "gather",
      "scatter", "alltoall",  "reduce",    "reduce_scatter", "allreduce",
      "gatherv", "scatterv",  "alltoallv", "reduce_scatterv"};
  return kNames[static_cast<std::size_t>(collective)];
}

/// Whether the collective has a root: one rank that sends all the data or receives the whole
/// result.
constexpr bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::gather ||
         collective == Collective::scatter || collective == Collective::reduce ||
         collective == Collective::gatherv || collective == Collective::scatterv;
}
constexpr bool reduces(Collective collective) {
  return collective == Collective::reduce || collective == Collective::reduce_scatter ||
         collective == Collective::allreduce || collective == Collective::reduce_scatterv;
}
/// Whether the ranks' blocks in the collective may differ in size, as in Allgatherv.
constexpr bool varies(Collective collective) {
  return collective == Collective::allgatherv || collective == Collective::gatherv ||
         collective == Collective::scatterv || collective == Collective::alltoallv ||
         collective == Collective::reduce_scatterv;
}

/// The name of an algorithm. `tutti explain` lists the names for each collective; a call with an
/// unknown name fails with an error that lists the valid names.
class Algorithm {
 public:
  static const Algorithm automatic;  ///< the library selects the algorithm by its algorithm table
  static const Algorithm multicast;  ///< reliable multicast [Khalilov24]
  /// Passes the data around a ring of ranks, or for Broadcast along a chain that begins at the
  /// root.
  static const Algorithm ring;

  constexpr Algorithm() = default;
  /// The object refers to `name` without a copy; `name` must stay valid until the call that uses
  /// this object has returned.
  constexpr Algorithm(std::string_view name) : name_(name) {}  // NOLINT: implicit conversion wanted
  constexpr Algorithm(const char* name) : name_(name) {}       // NOLINT: implicit conversion wanted
  /// The name of the algorithm; empty for `automatic`.
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
  /// A hint that the caller will wait right after the start, so that the progress thread can stay
  /// asleep.
  bool will_wait = false;
  // Parameters of algorithms; each algorithm uses some of them and ignores the others. All ranks
  // must pass equal values; 0 lets the library choose.
  std::uint32_t ports = 0;     ///< number of ports k of a k-port algorithm
  std::uint32_t radix = 0;     ///< radix k of a k-nomial tree
  std::uint32_t segments = 0;  ///< number of segments into which a pipelined message is cut
  Priority priority = Priority::normal;  ///< priority of the data that this rank sends
};

/// The arguments of one collective, for Communicator::start and Communicator::prepare. The function
/// of the same collective in Communicator documents which buffers are used and their sizes.
struct CollectiveCall {
  Collective collective = Collective::barrier;
  std::span<const std::byte> send{};  ///< send buffer; not used by Broadcast and Barrier
  std::span<std::byte> receive{};
  Rank root{0};
  Reduction reduction{};
  /// Size of each rank's block and its offset in `receive`, in bytes, indexed by rank; used by
  /// Allgatherv, by Alltoallv, and by Gatherv at the root.
  std::span<const std::uint64_t> sizes_bytes{};
  std::span<const std::uint64_t> offsets_bytes{};
  /// Size of each rank's block and its offset in `send`, in bytes, indexed by rank; used by
  /// Alltoallv, by Reduce-Scatterv, and by Scatterv at the root.
  std::span<const std::uint64_t> send_sizes_bytes{};
  std::span<const std::uint64_t> send_offsets_bytes{};
  CollectiveOptions options{};
};

}  // namespace tutti
