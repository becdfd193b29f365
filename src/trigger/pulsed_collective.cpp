#include "trigger/pulsed_collective.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace tutti::trigger {
namespace {

bool carries_data_through_buffers(CollectiveKind kind) {
  return kind != CollectiveKind::barrier && kind != CollectiveKind::broadcast;
}

}  // namespace

Result<PulsedCollective> PulsedCollective::create(UnitBank& bank, PulsedCredits& credits,
                                                  const CollectiveCall& call,
                                                  std::uint32_t segment_elements) {
  const std::uint64_t segment_bytes =
      std::uint64_t{segment_elements} * reduction::element_bytes(call.type);
  if (segment_elements == 0 ||
      (carries_data_through_buffers(call.kind) && segment_bytes > bank.slot_bytes())) {
    return failure(Code::invalid_argument,
                   "{}: segments of {} bytes are not possible: use at least one element, and at "
                   "most {} bytes, the size of a slot of the hash buffer",
                   to_string(call.kind), segment_bytes, bank.slot_bytes());
  }
  PulsedCollective made(bank, credits, call, segment_elements);
  const std::uint64_t ports = made.channels_.size() * ports_of(call.kind);
  if (index(call.port) + ports > bank.ports()) {
    return failure(Code::invalid_argument,
                   "{}: for a window of {} pulses the call needs the ports {} to {}, but all "
                   "ports must be below {}: use a smaller window, a lower first port or more ports "
                   "per job",
                   to_string(call.kind), credits.settings().window, index(call.port),
                   index(call.port) + ports - 1, bank.ports());
  }
  made.request_ = credits.open(made.call_.elements);
  return made;
}

PulsedCollective::PulsedCollective(UnitBank& bank, PulsedCredits& credits,
                                   const CollectiveCall& call, std::uint32_t segment_elements)
    : bank_(&bank),
      credits_(&credits),
      nodes_(call.nodes.begin(), call.nodes.end()),
      call_(call),
      segment_elements_(segment_elements),
      segments_per_pulse_(static_cast<std::uint32_t>(
          (credits.pulse_elements() + segment_elements - 1) / segment_elements)),
      request_(0),
      channels_(std::size_t{segments_per_pulse_} * credits.settings().window) {
  if (call.kind == CollectiveKind::barrier) call_.elements = 1;
}

bool PulsedCollective::poll(Instant now) {
  if (done()) return false;
  bool begun = post(now);
  PulsedCredits::Pulse pulse;
  while (status_.ok()) {
    const PulsedCredits::Answer answer = credits_->next(request_, now, pulse);
    if (answer == PulsedCredits::Answer::failed) status_ = credits_->status(request_);
    if (answer != PulsedCredits::Answer::pulse) break;
    status_ = begin(pulse);
    begun = true;
  }
  return post(now) || begun;
}

Status PulsedCollective::begin(const PulsedCredits::Pulse& pulse) {
  const std::uint64_t bytes = reduction::element_bytes(call_.type);
  const std::uint64_t window_slot = pulse.number % credits_->settings().window;
  auto channel = static_cast<std::uint32_t>(window_slot) * segments_per_pulse_;
  CollectiveCall segment = call_;
  segment.nodes = nodes_;
  const auto end = pulse.first_element + pulse.elements;
  for (std::uint64_t at = pulse.first_element; at < end; at += segment_elements_, ++channel) {
    segment.elements =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(segment_elements_, end - at));
    segment.port = static_cast<Port>(index(call_.port) + channel * ports_of(call_.kind));
    if (call_.input != kNoAddress) segment.input = call_.input + at * bytes;
    if (call_.output != kNoAddress) segment.output = call_.output + at * bytes;
    auto built = build_sequences(segment);
    if (!built) return built.status();
    channels_[channel] = {pulse.counter, segment.elements,
                          static_cast<std::uint32_t>(built->size())};
    std::move(built->begin(), built->end(), std::back_inserter(unposted_));
  }
  return Status();
}

bool PulsedCollective::post(Instant now) {
  bool posted = false;
  while (status_.ok() && !unposted_.empty()) {
    Status status = bank_->post(unposted_.front(), now);
    if (status.code() == Code::resource_exhausted) break;
    status_ = std::move(status);
    unposted_.pop_front();
    posted = true;
  }
  return posted;
}

bool PulsedCollective::on_completion(const Completion& completion) {
  const std::uint32_t offset = index(completion.port) - index(call_.port);
  const std::uint32_t at = offset / ports_of(call_.kind);
  if (completion.job != call_.job || at >= channels_.size()) return false;
  Channel& channel = channels_[at];
  if (!completion.status.ok()) {
    if (status_.ok()) status_ = completion.status;
    return true;
  }
  if (channel.sequences_left == 0) return false;
  if (--channel.sequences_left != 0) return true;
  const auto counted = credits_->count(channel.counter, channel.elements);
  if (!counted && status_.ok()) status_ = counted.status();
  return true;
}

}  // namespace tutti::trigger
