#include "engine/schedule/rendezvous_handshake.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace tutti::engine {

void RendezvousHandshake::begin(CommunicatorContext& context, const schedule::Schedule& schedule,
                                ScheduleWorkspace& space, std::uint32_t epoch, Priority priority) {
  context_ = &context;
  schedule_ = &schedule;
  space_ = &space;
  epoch_ = epoch;
  priority_ = priority;
}

void RendezvousHandshake::send_clear(Instant now, Rank sender, std::uint32_t slot,
                                     const protocol::ClearToSend& clear) {
  context_->messages().send_data(now, sender, epoch_, slot | schedule::kCtsSlots, encode(clear),
                                 priority_);
}

void RendezvousHandshake::await_clear(Instant now, schedule::TaskIndex task) {
  context_->peers().watch(schedule_->tasks()[task].peer);
  Instant& announce_at = space_->departures[task].announce_at;
  announce_at = now + context_->settings().enquiry_patience;
  due_ = std::min(due_, announce_at);
}

void RendezvousHandshake::announce(Instant now) {
  due_ = kNever;
  for (schedule::TaskIndex t = 0; t < space_->departures.size(); ++t) {
    DepartureState& departure = space_->departures[t];
    if (departure.clear) continue;
    if (departure.announce_at > now) {
      due_ = std::min(due_, departure.announce_at);
      continue;
    }
    departure.announce_at = kNever;
    const schedule::Task& task = schedule_->tasks()[t];
    const protocol::ReadyToSend ready{task.slot, space_->filled[t].source.size_bytes};
    context_->messages().send_data(now, task.peer, epoch_, protocol::kReadySlot, encode(ready),
                                   priority_);
  }
}

std::string RendezvousHandshake::misfit(Rank sender, const protocol::ReadyToSend& ready) const {
  const auto arrival = schedule_->arrival_of(sender, ready.slot);
  if (!arrival) return "a message that this rank does not expect";
  const std::uint64_t expected =
      space_->filled[schedule_->arrivals()[*arrival].task].target.size_bytes;
  if (ready.size_bytes == expected) return {};
  return sizes_differ(sender, ready.size_bytes, context_->rank(), expected);
}

std::string RendezvousHandshake::sizes_differ(Rank sender, std::uint64_t sent, Rank receiver,
                                              std::uint64_t expected) const {
  return fmt::format("{} sends {} bytes, but {} expects {}", context_->names().of(sender), sent,
                     context_->names().of(receiver), expected);
}

}  // namespace tutti::engine
