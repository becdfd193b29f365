#include "explain/choice.hpp"

#include "runtime/collective_calls.hpp"

namespace tutti::app {

Result<collectives::Choice> choose(Operation operation, std::uint32_t ranks,
                                   std::uint64_t block_bytes) {
  auto table = runtime::CollectiveCalls::choices_from_environment();
  if (!table) return table.status();
  return table->choose({operation, ranks, ranks, block_bytes});
}

}  // namespace tutti::app
