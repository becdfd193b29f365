// The route through the communicator's own engine, which serves every call.
#pragma once

#include <memory>
#include <string>

#include "engine/core/communicator_context.hpp"
#include "runtime/communicator/call_planner.hpp"
#include "runtime/progress/progress.hpp"
#include "runtime/routes/call_route.hpp"

namespace tutti::runtime {

class EngineRoute final : public CallRoute {
 public:
  /// `context`, `calls` and `progress` must outlive the route.
  EngineRoute(engine::CommunicatorContext& context, CallPlanner& calls, Progress& progress)
      : context_(context), calls_(calls), progress_(progress) {}

  bool serves(const CollectiveCall&) const override { return true; }
  Outcome start(const CollectiveCall& call) override;
  Result<PreparedRun> prepare(const CollectiveCall& call) override;
  Result<std::string> algorithm_of(const CollectiveCall& call) override;
  CounterList counters() const override { return {}; }
  std::string describe() const override { return {}; }
  void abort(const std::string& reason) override { context_.failures().abort(reason); }
  void fail_because(const Status& cause) override { EnginePoller::fail_because(context_, cause); }
  void on_failure(const std::function<void(const Status&)>& hook) override {
    context_.failures().on_failure(hook);
  }
  void poll() override;
  Status status() const override { return context_.failures().status(); }
  bool busy() const override { return context_.busy(); }
  Status close(Instant) override { return {}; }

 private:
  Outcome submit(Result<std::unique_ptr<engine::Operation>> operation, bool will_wait);

  engine::CommunicatorContext& context_;
  CallPlanner& calls_;
  Progress& progress_;
};

}  // namespace tutti::runtime
