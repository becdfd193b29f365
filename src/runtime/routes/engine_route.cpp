#include "runtime/routes/engine_route.hpp"

#include <utility>

#include "runtime/progress/clock.hpp"

namespace tutti::runtime {

CallRoute::Outcome EngineRoute::start(const CollectiveCall& call) {
  return submit(calls_.make(call), call.options.will_wait);
}

Result<CallRoute::PreparedRun> EngineRoute::prepare(const CollectiveCall& call) {
  auto planned = calls_.plan(call);
  if (!planned) return planned.status();
  return PreparedRun([this, planned = std::move(*planned)] {
    return submit(calls_.make(planned), planned.call.options.will_wait);
  });
}

Result<std::string> EngineRoute::algorithm_of(const CollectiveCall& call) {
  auto planned = calls_.plan(call);
  if (!planned) return planned.status();
  return std::string(planned->algorithm_name);
}

void EngineRoute::poll() { context_.poll(now()); }

CallRoute::Outcome EngineRoute::submit(Result<std::unique_ptr<engine::Operation>> operation,
                                       bool will_wait) {
  if (!operation) return operation.status();
  std::shared_ptr<engine::Completion> completion = (*operation)->completion();
  progress_.submit(context_, std::move(*operation), will_wait);
  return completion;
}

}  // namespace tutti::runtime
