#include "trigger/pulsed_credits.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace tutti::trigger {

Result<PulsedCredits> PulsedCredits::create(const Settings& settings) {
  if (settings.capacity_elements == 0 || settings.pulses == 0 || settings.counters == 0 ||
      settings.requests == 0) {
    return failure(Code::invalid_argument,
                   "pulsed credits: a setting is 0 (capacity {}, pulses {}, counters {}, requests "
                   "{}): set each to 1 or more",
                   settings.capacity_elements, settings.pulses, settings.counters,
                   settings.requests);
  }
  if (settings.pulses > settings.capacity_elements) {
    return failure(
        Code::invalid_argument,
        "pulsed credits: {} pulses are more than the capacity of {} elements: use fewer pulses",
        settings.pulses, settings.capacity_elements);
  }
  if (settings.window == 0 || settings.window > kMaxWindow) {
    return failure(Code::invalid_argument,
                   "pulsed credits: a window of {} pulses is invalid: use 1 to {}", settings.window,
                   kMaxWindow);
  }
  return PulsedCredits(settings);
}

PulsedCredits::PulsedCredits(const Settings& settings)
    : settings_(settings), counters_(settings.counters) {
  pulse_elements_ = (settings.capacity_elements + settings.pulses - 1) / settings.pulses;
  credits_ = static_cast<std::uint32_t>(settings.capacity_elements / pulse_elements_);
}

PulsedCredits::Request PulsedCredits::open(std::uint64_t elements) {
  const auto free =
      std::find_if(requests_.begin(), requests_.end(),
                   [](const RequestState& request) { return request.state == State::closed; });
  const auto at = static_cast<Request>(free - requests_.begin());
  if (free == requests_.end()) requests_.emplace_back();
  requests_[at] = RequestState();
  requests_[at].state = State::waiting;
  requests_[at].elements = elements;
  return at;
}

std::uint64_t PulsedCredits::pulses_of(const RequestState& request) const {
  return (request.elements + pulse_elements_ - 1) / pulse_elements_;
}

std::uint32_t PulsedCredits::spare() const {
  std::uint32_t kept = 0;
  for (const RequestState& request : requests_) {
    if (request.state != State::admitted) continue;
    const bool more_to_come = request.next_pulse != pulses_of(request);
    kept += std::max(more_to_come ? 1u : 0u, request.in_flight);
  }
  return std::min(credits_, settings_.counters) - kept;
}

bool PulsedCredits::may_take_more() const {
  std::uint32_t admitted = 0;
  for (const RequestState& request : requests_) {
    const bool more_to_come = request.next_pulse != pulses_of(request);
    if (request.state == State::admitted && more_to_come) ++admitted;
    if (request.state == State::waiting && request.attempts != 0) return false;
  }
  const std::uint32_t still_to_come = settings_.requests - std::min(admitted, settings_.requests);
  return spare() > still_to_come;
}

bool PulsedCredits::admit(RequestState& request, Instant now) {
  if (spare() != 0) {
    request.state = State::admitted;
    return true;
  }
  if (now < request.retry_at) return false;
  ++totals_.retries;
  request.retry_at = now + settings_.retry_after;
  if (++request.attempts >= settings_.attempts) {
    request.state = State::failed;
    ++totals_.failures;
  }
  return false;
}

PulsedCredits::Answer PulsedCredits::next(Request at, Instant now, Pulse& pulse) {
  RequestState& request = requests_[at];
  if (request.state == State::failed || request.state == State::closed) return Answer::failed;
  if (request.next_pulse == pulses_of(request)) return Answer::finished;
  if (request.state == State::waiting && !admit(request, now)) {
    return request.state == State::failed ? Answer::failed : Answer::retry;
  }
  if (request.next_pulse - request.oldest_pulse >= settings_.window) return Answer::wait;
  if (request.in_flight != 0 && !may_take_more()) return Answer::wait;
  pulse = inject(at);
  return Answer::pulse;
}

PulsedCredits::Pulse PulsedCredits::inject(Request at) {
  RequestState& request = requests_[at];
  const auto free = std::find_if(counters_.begin(), counters_.end(),
                                 [](const Counter& counter) { return !counter.busy; });
  Pulse pulse;
  pulse.counter = static_cast<std::uint32_t>(free - counters_.begin());
  pulse.number = request.next_pulse;
  pulse.first_element = request.next_pulse * pulse_elements_;
  pulse.elements = std::min(pulse_elements_, request.elements - pulse.first_element);
  *free = {true, at, pulse.number, pulse.elements};
  ++request.next_pulse;
  ++request.in_flight;
  ++totals_.pulses;
  ++totals_.in_flight;
  totals_.in_flight_high_water = std::max(totals_.in_flight_high_water, totals_.in_flight);
  return pulse;
}

Result<bool> PulsedCredits::count(std::uint32_t at, std::uint64_t elements) {
  if (at >= counters_.size() || !counters_[at].busy || counters_[at].left_elements < elements) {
    return failure(Code::internal,
                   "pulsed credits: {} elements came back for response counter {}, which awaits "
                   "only {} more: report this as a defect",
                   elements, at, at < counters_.size() ? counters_[at].left_elements : 0);
  }
  Counter& counter = counters_[at];
  counter.left_elements -= elements;
  if (counter.left_elements != 0) return false;
  complete_pulse(counter);
  counter = Counter();
  return true;
}

void PulsedCredits::complete_pulse(const Counter& counter) {
  RequestState& request = requests_[counter.request];
  request.completed_mask |= std::uint64_t{1} << (counter.pulse - request.oldest_pulse);
  while ((request.completed_mask & 1) != 0) {
    request.completed_mask >>= 1;
    ++request.oldest_pulse;
  }
  --request.in_flight;
  --totals_.in_flight;
}

bool PulsedCredits::complete(Request at) const {
  const RequestState& request = requests_[at];
  return request.state != State::failed && request.oldest_pulse == pulses_of(request);
}

bool PulsedCredits::close(Request at) {
  if (requests_[at].in_flight != 0) return false;
  requests_[at] = RequestState();
  return true;
}

Status PulsedCredits::status(Request at) const {
  const RequestState& request = requests_[at];
  if (request.state != State::failed) return Status();
  return failure(Code::resource_exhausted,
                 "pulsed credits: a reduction did not get a credit and a counter in {} attempts "
                 "({} of at most {} pulses are in flight now): start fewer reductions at once, or "
                 "raise `pulses` and `counters`",
                 request.attempts, totals_.in_flight, std::min(credits_, settings_.counters));
}

std::uint64_t PulsedCredits::outstanding_elements() const {
  std::uint64_t outstanding = 0;
  for (const Counter& counter : counters_) outstanding += counter.busy ? counter.left_elements : 0;
  return outstanding;
}

}  // namespace tutti::trigger
