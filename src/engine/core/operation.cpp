#include "engine/core/operation.hpp"

#include <utility>

#include "engine/receive/receive_view.hpp"

namespace tutti::engine {

void Completion::end(const Status& result) {
  status = result;
  // A callback is moved out before it runs, because it may own this object or set a new callback.
  while (callback) {
    auto present = std::exchange(callback, nullptr);
    try {
      present(result);
    } catch (...) {
      callback = std::move(present);
      throw;
    }
  }
  // The pointer is cleared before `done` is set, because a thread that sees `done` may set the
  // pointer anew.
  Completion* const any = std::exchange(any_of, nullptr);
  done.store(true, std::memory_order_release);
  if (any != nullptr) any->done.store(true, std::memory_order_release);
}

void Operation::on_message(Instant, Rank from, const protocol::Message& message) {
  rejections_->reject_message(from, message);
}

void Operation::on_chunk(Instant, const device::ReceivedChunk& chunk,
                         device::MulticastQueuePair& queue_pair) {
  std::vector<std::byte> aside(chunk.payload.size());
  if (queue_pair.copy_and_verify(chunk, aside.data()))
    rejections_->reject_chunk(chunk.source, aside.size());
}

// `on_chunk` checks the integrity of the chunk, which requires that it is stored.
device::Placement Operation::landing(const device::MessageHead&, bool) {
  return {device::Placement::Where::staging};
}

void Operation::on_unexpected_chunk(Instant, std::uint32_t, Rank source,
                                    std::span<const std::byte> payload) {
  rejections_->reject_chunk(source, payload.size());
}

void Operation::on_completion(Instant, const device::Completion&) {}

void Operation::on_data(Instant, Rank from, std::uint32_t slot, std::span<const std::byte>) {
  rejections_->reject_data(*this, from, slot);
}

std::optional<std::span<std::byte>> Operation::place_of(Rank, std::uint32_t, std::size_t) {
  return std::nullopt;
}

void Operation::on_placed(Instant now, Rank from, std::uint32_t slot) {
  on_data(now, from, slot, {});
}

void Operation::on_immediate(Instant now, Rank from, std::uint32_t slot) {
  on_data(now, from, slot, {});
}

ReceiveView Operation::receive_view() { return {.epoch = epoch_}; }

void Operation::on_arrivals(Instant, const std::vector<Arrival>&) {}

}  // namespace tutti::engine
