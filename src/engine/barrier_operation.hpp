// Barrier: recursive doubling over the reliable connections.
#pragma once

#include <memory>

#include "engine/operation.hpp"
#include "protocol/ready_barrier.hpp"

namespace tutti::engine {

class BarrierOperation final : public Operation {
 public:
  BarrierOperation() : Operation({"barrier", "recursive doubling", kNoRank, 0}) {}

  bool confirms_earlier() const override { return true; }
  void on_message(Instant now, Rank from, const protocol::Message& message) override;
  bool poll(Instant) override { return false; }
  bool locally_complete() const override { return done(); }
  bool done() const override { return barrier_->done(); }
  observe::Phase phase() const override { return observe::Phase::ready; }

 protected:
  void start(Instant now, bool barrier) override;

 private:
  std::unique_ptr<protocol::ReadyBarrier> barrier_;
  protocol::Outbox outbox_;
};

}  // namespace tutti::engine
