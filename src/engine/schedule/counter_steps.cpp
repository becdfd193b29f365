#include "engine/schedule/counter_steps.hpp"

#include <utility>

#include "base/error.hpp"
#include "device/atomics.hpp"
#include "engine/core/communicator_context.hpp"
#include "protocol/codec/data_message.hpp"

namespace tutti::engine {

void CounterSteps::begin(CommunicatorContext& context, const schedule::Schedule& schedule,
                         std::uint32_t epoch, Priority priority) {
  context_ = &context;
  schedule_ = &schedule;
  epoch_ = epoch;
  priority_ = priority;
}

bool CounterSteps::add(Instant now, schedule::TaskIndex task, OldValue& old_value) {
  const Rank peer = schedule_->tasks()[task].peer;
  const auto key = context_->operations().counter_words().key_of(peer);
  if (!key) {
    context_->peers().watch(peer);
    return true;  // `add` is called again once the peer has sent its key
  }
  device::WorkRequest request{.opcode = device::Opcode::fetch_add,
                              .peer = peer,
                              .work_id = std::uint64_t{epoch_} << 32 | task,
                              .local = old_value,
                              .remote_key = *key,
                              .remote_offset = CounterWords::offset_of(epoch_),
                              .priority = priority_};
  request.atomic = AtomicOperands::fetch_add(1);
  const Status posted = context_->endpoint().post(now, request);
  if (posted.ok()) return true;
  context_->failures().on_refusal(posted);
  return posted.code() != Code::resource_exhausted;
}

bool CounterSteps::accept_old_value(Rank peer, const OldValue& old_value) {
  const std::uint64_t old = device::old_value(context_->endpoint().capabilities(), old_value);
  if (old < context_->size()) return true;
  const std::string& name = context_->names().of(peer);
  context_->failures().fail(context_->failures().misfit(
      peer, Code::internal,
      "an atomic addition found the value {1} in a counter of {0}, although only {2} ranks add 1 "
      "to this counter: report this as a defect",
      name, old, context_->size()));
  return false;
}

void CounterSteps::begin_wait(Instant now, schedule::TaskIndex task) {
  CounterWords& words = context_->operations().counter_words();
  const auto key = words.key(context_->endpoint());
  if (!key) return context_->failures().fail(key.status());
  for (const schedule::Key& source : schedule_->keys(task)) {
    if (!words.tell(source.source)) continue;
    context_->messages().send_data(now, source.source, epoch_, source.slot | schedule::kCtsSlots,
                                   encode(protocol::ClearToSend{.key = key->key}), priority_);
  }
  waiting_ = task;
}

std::optional<schedule::TaskIndex> CounterSteps::take_complete() {
  if (!waiting_) return std::nullopt;
  CounterWords& words = context_->operations().counter_words();
  const std::uint64_t additions = schedule_->keys(*waiting_).size();
  if (words.count(epoch_) < additions) return std::nullopt;
  words.subtract(epoch_, additions);
  return std::exchange(waiting_, std::nullopt);
}

}  // namespace tutti::engine
