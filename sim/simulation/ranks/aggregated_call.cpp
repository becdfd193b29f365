#include "sim/simulation/ranks/aggregated_call.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "engine/aggregate/aggregated_call.hpp"
#include "reduction/reducer.hpp"

namespace tutti::simulation {

using engine::InNetworkKind;

namespace {

constexpr std::uint64_t kWordBytes = 8;

InNetworkKind kind_of(CollectiveKind kind) {
  if (kind == CollectiveKind::reduce_scatter) return InNetworkKind::reduce_scatter;
  return kind == CollectiveKind::reduce ? InNetworkKind::reduce : InNetworkKind::allreduce;
}

/// Describes a reduction to the engine as a sum of 64-bit words. A Reduce-Scatter folds in ring
/// order, as in a real job, although the order does not change a sum of integers.
engine::InNetworkCall call_of(const CollectiveSpec& what, std::uint32_t ranks) {
  engine::InNetworkCall call{.kind = kind_of(what.kind),
                             .type = reduction::ElementType::uint64,
                             .operation = reduction::Operation::sum,
                             .order = engine::FoldOrder::rank,
                             .root = what.kind == CollectiveKind::reduce ? what.root : rank_of(0),
                             .elements = what.bytes / kWordBytes};
  if (call.kind == InNetworkKind::reduce_scatter && ranks > 1) call.order = engine::FoldOrder::ring;
  return call;
}

}  // namespace

engine::WindowConfig aggregator_window(std::uint32_t slots) {
  constexpr std::uint32_t kSegmentBytes = 4096;  // shortest segment that engine::check() accepts
  return {.segment_bytes = kSegmentBytes,
          .slots = slots,
          .pulses = std::min(slots, engine::WindowConfig().pulses),
          .group_bytes = kSegmentBytes * std::min(slots, 2u)};
}

Status check_aggregated(const CommunicatorSpec& spec) {
  if (Status status = engine::check(*spec.aggregator); !status) return status;
  const std::uint32_t ranks = calling_ranks(spec);
  if (ranks == 0) {
    return failure(Code::invalid_argument,
                   "the aggregator is the only rank of a communicator: use 2 or more ranks");
  }
  for (const CollectiveSpec& what : spec.collectives) {
    if (!reduces(what.kind)) {
      return failure(Code::invalid_argument,
                     "a communicator with an aggregator cannot run {}: use reduce, reduce-scatter "
                     "or allreduce",
                     to_string(what.kind));
    }
    if (Status status = engine::check(call_of(what, ranks), ranks); !status) return status;
  }
  return {};
}

std::vector<std::unique_ptr<engine::Operation>> aggregated_operations(
    const CollectiveSpec& what, const CommunicatorSpec& spec, std::span<const std::byte> own,
    std::span<std::byte> result) {
  const std::uint32_t ranks = calling_ranks(spec);
  const engine::InNetworkCall call = call_of(what, ranks);
  const auto reducer = reduction::Reducer::create(call.operation, call.type);
  if (call.elements == 0 || !reducer) return {};
  return engine::aggregated_call(call, ranks, *spec.aggregator,
                                 {.input = own, .block_bytes = what.bytes}, result, *reducer);
}

std::uint64_t aggregated_chunks(const CollectiveSpec& what, const CommunicatorSpec& spec,
                                std::uint64_t chunk_bytes) {
  const std::uint32_t ranks = calling_ranks(spec);
  const engine::InNetworkCall call = call_of(what, ranks);
  if (call.kind != InNetworkKind::allreduce || what.kind == CollectiveKind::leave ||
      call.elements == 0) {
    return 0;
  }
  const engine::InNetworkPlan plan(call, ranks, *spec.aggregator);
  std::uint64_t chunks = 0;
  for (std::uint32_t group = 0; group < plan.groups(); ++group)
    chunks += (plan.group_bytes(group) + chunk_bytes - 1) / chunk_bytes;
  return chunks;
}

}  // namespace tutti::simulation
