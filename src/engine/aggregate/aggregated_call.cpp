#include "engine/aggregate/aggregated_call.hpp"

#include "engine/multicast/multicast_operation.hpp"

namespace tutti::engine {

std::vector<std::unique_ptr<Operation>> aggregated_call(
    const InNetworkCall& call, std::uint32_t ranks, const WindowConfig& terms,
    InNetworkBuffers buffers, std::span<std::byte> result, const reduction::Reducer& reducer) {
  std::vector<std::unique_ptr<Operation>> operations;
  const bool to_all = call.kind == InNetworkKind::allreduce;
  if (!to_all) buffers.result = result;
  operations.push_back(std::make_unique<ContributeOperation>(call, terms, buffers, reducer));
  if (!to_all) return operations;
  const InNetworkPlan plan(call, ranks, terms);
  for (std::uint32_t group = 0; group < plan.groups(); ++group) {
    operations.push_back(MulticastOperation::broadcast(
        result.subspan(plan.group_offset_bytes(group), plan.group_bytes(group)), rank_of(ranks)));
  }
  return operations;
}

}  // namespace tutti::engine
