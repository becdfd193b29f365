#include "group.hpp"

namespace tutti::torch_backend {

std::vector<std::pair<std::string, std::uint64_t>> list(const Counts& counts) {
  return {{"torch_operations", counts.operations},
          {"torch_staged_tensors", counts.staged_tensors},
          {"torch_staged_bytes", counts.staged_bytes},
          {"torch_operations_queued", counts.queued},
          {"torch_operations_alone", counts.alone},
          {"torch_operations_waited", counts.waited},
          {"torch_operations_high_priority", counts.high},
          {"torch_futures", counts.futures}};
}

std::string name_ranks(const Group& group, const std::vector<std::uint32_t>& ranks) {
  std::string local;
  std::string global;
  bool differ = false;
  for (const std::uint32_t rank : ranks) {
    const std::string comma = local.empty() ? "" : ", ";
    local += comma + std::to_string(rank);
    if (rank >= group.global_ranks.size()) continue;
    global += comma + std::to_string(group.global_ranks[rank]);
    differ = differ || group.global_ranks[rank] != static_cast<std::int64_t>(rank);
  }
  const std::string text = (ranks.size() == 1 ? "rank " : "ranks ") + local;
  return differ ? text + " (" + global + " in the job)" : text;
}

}  // namespace tutti::torch_backend
