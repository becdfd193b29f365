#include "sim/fault/fault_injector.hpp"

#include <algorithm>

#include "base/random.hpp"

namespace tutti::device::fault {

namespace {

// Number of chunks at which the table recent_ is full and replaces the table older_.
constexpr std::size_t kGeneration = 1 << 18;
// The draws for the details of a fault use this number in place of a rule's index. They are
// therefore independent of the draws that decide whether a fault occurs.
constexpr std::uint64_t kDetail = 0xde7a11;

bool meets(const FaultRule& rule, const Subject& subject) {
  if (rule.place != subject.place || rule.packet != subject.packet) return false;
  if (rule.epochs && !rule.epochs->contains(subject.epoch)) return false;
  if (rule.psns && !rule.psns->contains(subject.psn)) return false;
  if (rule.source && *rule.source != subject.source) return false;
  if (rule.occurrences != 0 && subject.occurrence >= rule.occurrences) return false;
  return rule.ranks.empty() ||
         std::find(rule.ranks.begin(), rule.ranks.end(), subject.receiver) != rule.ranks.end();
}

std::uint64_t draw_for(std::uint64_t seed, std::uint64_t which, const Subject& subject) {
  const std::uint64_t chunk = draw(seed, which, subject.epoch, subject.psn);
  return draw(chunk, index(subject.source), index(subject.receiver), subject.occurrence);
}

}  // namespace

void InjectedCounters::add(std::uint64_t Injected::*counter, std::uint64_t amount) {
  const std::lock_guard lock(mutex_);
  sum_.*counter += amount;
}

Injected InjectedCounters::snapshot() const {
  const std::lock_guard lock(mutex_);
  return sum_;
}

const FaultRule* decide(const FaultPlan& plan, const Subject& subject) {
  for (std::size_t i = 0; i < plan.rules.size(); ++i) {
    const FaultRule& rule = plan.rules[i];
    if (!meets(rule, subject)) continue;
    if (rule.rate_ppm >= 1'000'000 || draw_for(plan.seed, i, subject) % 1'000'000 < rule.rate_ppm) {
      return &rule;
    }
  }
  return nullptr;
}

std::uint64_t detail(const FaultPlan& plan, const Subject& subject) {
  return draw_for(plan.seed, kDetail, subject);
}

std::size_t OccurrenceCounter::Hash::operator()(const Key& key) const {
  return draw(key.epoch, key.psn, index(key.source));
}

std::uint32_t OccurrenceCounter::of(std::uint32_t epoch, std::uint32_t psn, Rank source) const {
  const Key key{epoch, psn, source};
  const auto recent = recent_.find(key);
  if (recent != recent_.end()) return recent->second;
  const auto older = older_.find(key);
  return older == older_.end() ? 0 : older->second;
}

std::uint32_t OccurrenceCounter::count(std::uint32_t epoch, std::uint32_t psn, Rank source) {
  const Key key{epoch, psn, source};
  if (recent_.size() >= kGeneration) {
    const std::uint32_t before = of(epoch, psn, source);
    older_.swap(recent_);
    recent_.clear();
    recent_[key] = before + 1;
    return before;
  }
  const auto [at, fresh] = recent_.try_emplace(key, 0);
  if (fresh && !older_.empty()) {
    const auto older = older_.find(key);
    if (older != older_.end()) at->second = older->second;
  }
  return at->second++;
}

unsigned PlannedFrameTap::copies(Rank from, Rank to, std::size_t) {
  Subject subject{
      .place = FaultSite::sender, .packet = Packet::reliable, .source = from, .receiver = to};
  {
    const std::lock_guard lock(mutex_);
    // A frame tap cannot tell a retransmitted frame from a new one. The occurrence of a frame is
    // therefore its number among all frames from this rank to this peer.
    subject.occurrence = sent_[{from, to}]++;
  }
  const FaultRule* rule = decide(plan_, subject);
  if (rule == nullptr) return 1;
  if (rule->action == Action::duplicate) {
    counters_->add(&Injected::frames_duplicated);
    return 2;
  }
  counters_->add(&Injected::frames_dropped);
  return 0;
}

}  // namespace tutti::device::fault
