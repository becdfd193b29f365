#include "engine/barrier_operation.hpp"

#include "engine/communicator_context.hpp"

namespace tutti::engine {

void BarrierOperation::start(Instant now, bool) {
  barrier_ = std::make_unique<protocol::ReadyBarrier>(context().rank(), context().size(), epoch());
  barrier_->start(outbox_);
  context().send(now, outbox_);
}

void BarrierOperation::on_message(Instant now, Rank from, const protocol::Message& message) {
  const bool legal = message.kind == protocol::MessageKind::barrier &&
                     barrier_->on_message(from, message.argument, outbox_);
  if (!legal) ++context().counters().messages_rejected;
  context().send(now, outbox_);
}

}  // namespace tutti::engine
