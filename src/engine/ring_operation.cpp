#include "engine/ring_operation.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "engine/communicator_context.hpp"

namespace tutti::engine {

namespace {

constexpr std::uint64_t kSegmentBytes = 64 * 1024;  // the pipelining grain of the peers' best rings
constexpr std::uint64_t kMaxPosted = 16;            // segments on their way to the right

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

}  // namespace

RingOperation::RingOperation(const Description& description, std::span<std::byte> buffer,
                             std::span<const std::byte> own, bool gather)
    : Operation(description), buffer_(buffer), own_(own), gather_(gather) {}

std::unique_ptr<RingOperation> RingOperation::allgather(std::span<const std::byte> own,
                                                        std::span<std::byte> receive) {
  return std::unique_ptr<RingOperation>(
      new RingOperation({"allgather", "ring", kNoRank, receive.size()}, receive, own, true));
}

std::unique_ptr<RingOperation> RingOperation::broadcast(std::span<std::byte> buffer, Rank root) {
  return std::unique_ptr<RingOperation>(
      new RingOperation({"broadcast", "chain", root, buffer.size()}, buffer, buffer, false));
}

void RingOperation::start(Instant now, bool) {
  const std::uint32_t size = context().size();
  block_bytes_ = gather_ ? own_.size() : buffer_.size();
  segments_per_block_ = divide_up(block_bytes_, kSegmentBytes);
  const std::uint32_t me = index(context().rank());
  if (gather_) {
    std::byte* place = buffer_.data() + me * block_bytes_;
    if (place != own_.data() && !own_.empty()) std::memcpy(place, own_.data(), own_.size());
    to_receive_ = to_send_ = segments_per_block_ * (size - 1);
  } else {
    const std::uint32_t distance = (me + size - index(description().root)) % size;
    to_receive_ = distance == 0 ? 0 : segments_per_block_;
    to_send_ = distance + 1 == size ? 0 : segments_per_block_;
  }
  if (to_receive_ > 0) {
    auto key = context().endpoint().register_memory(buffer_);
    if (!key) {
      context().fail(key.status());
      return;
    }
    key_ = *key;
    registered_ = true;
    outbox_.send(rank_of((me + size - 1) % size), protocol::MessageKind::buffer_key, epoch(),
                 key_.key);
    context().send(now, outbox_);
  }
  context().recorder().enter(epoch(), observe::Phase::data, now);
}

void RingOperation::on_message(Instant, Rank from, const protocol::Message& message) {
  const Rank right = rank_of((index(context().rank()) + 1) % context().size());
  if (message.kind == protocol::MessageKind::buffer_key && from == right) {
    right_key_ = message.argument;
    right_ready_ = true;
    return;
  }
  if (message.kind == protocol::MessageKind::activate) {
    ++received_;
    return;
  }
  ++context().counters().messages_rejected;
}

std::span<std::byte> RingOperation::segment(std::uint64_t position,
                                            std::uint32_t owner_shift) const {
  const std::uint64_t in_block = position % segments_per_block_ * kSegmentBytes;
  std::uint64_t base = 0;
  if (gather_) {
    const std::uint64_t step = position / segments_per_block_;
    const std::uint64_t size = context().size();
    const std::uint64_t owner = (index(context().rank()) + 2 * size - step - owner_shift) % size;
    base = owner * block_bytes_;
  }
  return buffer_.subspan(base + in_block, std::min(kSegmentBytes, block_bytes_ - in_block));
}

bool RingOperation::post_next(Instant now) {
  // In the gather, the first block sent is our own; each later one is the one received before.
  const std::uint64_t available =
      gather_ ? segments_per_block_ + received_ : (to_receive_ == 0 ? to_send_ : received_);
  if (!right_ready_ || posted_ >= std::min(available, to_send_)) return false;
  if (posted_ - completed_ >= kMaxPosted) return false;
  const std::span<std::byte> data = segment(posted_, 0);
  const Rank right = rank_of((index(context().rank()) + 1) % context().size());
  const Status posted = context().endpoint().post(
      now, {.opcode = device::Opcode::write,
            .peer = right,
            .work_id = std::uint64_t{epoch()} << 32,
            .local = data,
            .remote_key = {right_key_},
            .remote_offset = static_cast<std::uint64_t>(data.data() - buffer_.data())});
  if (!posted.ok()) return false;
  // Messages come after the data of the writes before them.
  outbox_.send(right, protocol::MessageKind::activate, epoch());
  context().send(now, outbox_);
  ++posted_;
  return true;
}

bool RingOperation::poll(Instant now) {
  bool worked = false;
  while (post_next(now)) worked = true;
  return worked;
}

void RingOperation::on_completion(Instant, const device::Completion& completion) {
  if (completion.code != Code::ok) {
    context().fail(
        failure(completion.code, "a write to {} failed", context().name_of(completion.peer)));
    return;
  }
  ++completed_;
}

bool RingOperation::done() const { return received_ >= to_receive_ && completed_ >= to_send_; }

void RingOperation::finish() {
  if (registered_) context().endpoint().deregister_memory(key_);
  registered_ = false;
}

std::string RingOperation::missing() const {
  return fmt::format("{} of {} segments", to_receive_ - std::min(received_, to_receive_),
                     to_receive_);
}

}  // namespace tutti::engine
