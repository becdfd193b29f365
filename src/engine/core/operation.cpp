#include "engine/core/operation.hpp"

#include "base/error.hpp"
#include "engine/core/communicator_context.hpp"

namespace tutti::engine {

void Operation::on_message(Instant, Rank, const protocol::Message&) {
  ++context().counters().messages_rejected;
}

void Operation::on_chunk(Instant, const device::ReceivedChunk&, device::MulticastQueuePair&) {
  ++context().counters().chunks_malformed;
}

device::Placement Operation::landing(const device::MessageHead&, bool begins) {
  if (begins) ++context().counters().chunks_malformed;
  return {};
}

void Operation::on_unexpected_chunk(Instant, std::uint32_t, Rank, std::span<const std::byte>) {
  ++context().counters().chunks_malformed;
}

void Operation::on_completion(Instant, const device::Completion&) {}

void Operation::on_data(Instant, Rank from, std::uint32_t slot, std::span<const std::byte>) {
  ++context().counters().messages_rejected;
  context().fail(failure(Code::invalid_argument,
                         "{} sent data in slot {}, which {} by {} does not have: call the same "
                         "collective with the same algorithm on all ranks",
                         context().name_of(from), slot, description_.operation,
                         description_.algorithm));
}

void Operation::on_immediate(Instant now, Rank from, std::uint32_t slot) {
  on_data(now, from, slot, {});
}

ReceiveView Operation::receive_view() { return {.epoch = epoch_}; }

void Operation::on_arrivals(Instant, const std::vector<Arrival>&) {}

}  // namespace tutti::engine
