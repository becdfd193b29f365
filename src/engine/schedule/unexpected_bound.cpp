#include "engine/schedule/unexpected_bound.hpp"

#include <algorithm>
#include <bit>

#include "engine/core/barrier_policy.hpp"

namespace tutti::engine {

namespace {

/// Upper bound on the number of blocks that one rank receives in one call.
std::uint64_t most_received_blocks(const schedule::Purpose& purpose) {
  switch (purpose.collective) {
    case schedule::Collective::barrier:
    case schedule::Collective::broadcast:
      return 1;
    case schedule::Collective::reduce:
      if (purpose.algorithm == "linear_keyed") return purpose.ranks;
      [[fallthrough]];
    case schedule::Collective::allreduce:
      // This is the bound for tree and exchange algorithms. It also holds for all others, because
      // with those a rank receives at most two blocks.
      return std::bit_width(purpose.ranks);
    default:
      return purpose.ranks;
  }
}

}  // namespace

std::uint64_t unexpected_bound(const schedule::Purpose& purpose, const schedule::Shape& shape) {
  const schedule::BlockSizes& blocks = shape.of(schedule::Buffer::receive);
  std::uint64_t bytes = most_received_blocks(purpose) * blocks.uniform_bytes;
  if (purpose.collective == schedule::Collective::allgatherv) {
    bytes = 0;
    for (const std::uint64_t size : blocks.sizes_bytes) bytes += size;
  } else if (varies(purpose.collective)) {
    bytes = UINT64_MAX;  // not every rank knows all sizes, so all ranks use the largest bound
  }
  const std::uint64_t messages = std::uint64_t{purpose.ranks} * purpose.parameters.segments;
  return messages * BarrierPolicy::kUnexpectedOverheadBytes +
         std::min(bytes, messages * shape.eager_limit_bytes);
}

}  // namespace tutti::engine
