#include "explain/choice.hpp"

#include "runtime/communicator/call_planner.hpp"

namespace tutti::app {

Result<collectives::Choice> choose(Operation operation, std::uint32_t ranks,
                                   std::uint64_t block_bytes, const Whereabouts& where) {
  auto table = runtime::CallPlanner::choices_from_environment();
  if (!table) return table.status();
  std::uint32_t hosts = where.hosts;
  if (hosts == 0) hosts = where.device == "host" ? 1 : ranks;
  return table->choose({operation, ranks, hosts, block_bytes, where.device, where.multicast});
}

}  // namespace tutti::app
