#include "engine/core/clock_exchange.hpp"

#include <cstring>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "engine/core/communicator_context.hpp"

namespace tutti::engine {

namespace {

constexpr Rank kReference{0};
// A plausible clock value lies between -kLatest and kLatest. No real clock reaches these bounds,
// and a sum of a few values between them does not overflow.
constexpr Instant kLatest{std::int64_t{1} << 61};

bool is_plausible(Instant time) { return Instant{-kLatest.nanoseconds} < time && time < kLatest; }

}  // namespace

ClockExchange::ClockExchange(observe::TraceLog::Clock clock, std::uint64_t identity,
                             ClockComparison& outcome)
    : Operation({"clock_exchange", "ping_pong", kReference, 0}),
      clock_(clock),
      identity_(identity),
      outcome_(outcome) {
  static_assert(std::is_trivially_copyable_v<Answer> && sizeof(Answer) == 24);
}

bool ClockExchange::answers() const { return context().rank() == kReference; }

void ClockExchange::start(Instant now, bool) {
  context().recorder().enter(epoch(), observe::Phase::data, now);
  const std::uint32_t size = context().size();
  completion()->chunks_total = kExchanges;
  if (!answers()) {
    context().peers().watch(kReference);
    ask(now);
    return;
  }
  for (std::uint32_t r = 1; r < size; ++r) context().peers().watch(rank_of(r));
  answered_.resize(size);
  unanswered_ = std::uint64_t{size - 1} * kExchanges;
  outcome_.identity = identity_;
  outcome_.origin = clock_();
  over_ = unanswered_ == 0;
}

void ClockExchange::ask(Instant now) {
  sent_ = true;
  asked_at_ = clock_();
  context().messages().send_data(now, kReference, epoch(), asked_, {});
}

void ClockExchange::on_data(Instant now, Rank from, std::uint32_t slot,
                            std::span<const std::byte> payload) {
  if (answers()) {
    answer(now, from, slot);
  } else if (from == kReference) {
    take(now, slot, payload);
  } else {
    ++context().counters().messages_rejected;
  }
}

void ClockExchange::answer(Instant now, Rank from, std::uint32_t slot) {
  std::uint32_t& next = answered_[index(from)];
  if (from == kReference || slot != next || next == kExchanges) {
    ++context().counters().messages_rejected;
    return;
  }
  sent_ = true;
  ++next;
  --unanswered_;
  const Answer reply{clock_(), outcome_.origin, identity_};
  context().messages().send_data(now, from, epoch(), slot, std::as_bytes(std::span(&reply, 1)));
  over_ = unanswered_ == 0;
}

void ClockExchange::take(Instant now, std::uint32_t slot, std::span<const std::byte> payload) {
  Answer reply;
  if (over_ || slot != asked_ || payload.size() != sizeof reply) {
    ++context().counters().messages_rejected;
    return;
  }
  std::memcpy(&reply, payload.data(), sizeof reply);
  if (!is_plausible(reply.at) || !is_plausible(reply.origin)) {
    ++context().counters().messages_rejected;
    return;
  }
  outcome_.bounds.add(asked_at_, reply.at, clock_());
  outcome_.identity = reply.identity;
  outcome_.origin = reply.origin;
  ++asked_;
  over_ = asked_ == kExchanges;
  if (!over_) ask(now);
}

bool ClockExchange::poll(Instant) {
  completion()->chunks_present.store(answers() ? 0 : asked_, std::memory_order_relaxed);
  return std::exchange(sent_, false);
}

Missing ClockExchange::missing() const {
  if (answers()) return {fmt::format("{} clock requests of other ranks", unanswered_)};
  return {fmt::format("{} answers about the clock of rank 0", kExchanges - asked_), {Rank{0}}};
}

}  // namespace tutti::engine
