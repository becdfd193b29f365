#include "engine/receive/receive_team.hpp"

#include <algorithm>
#include <utility>

namespace tutti::engine {

ReceiveTeam::ReceiveTeam(device::Endpoint& endpoint, std::uint32_t workers,
                         std::uint32_t last_epoch, std::uint64_t unexpected_bytes)
    : folded_(workers),
      view_(std::make_shared<ReceiveView>(
          ReceiveView{.state = ReceiveView::State::over, .epoch = last_epoch})) {
  board_.view.store(view_.get(), std::memory_order_seq_cst);
  for (std::uint32_t w = 0; w < workers; ++w) {
    workers_.push_back(std::make_unique<ReceiveWorker>(board_, unexpected_bytes));
  }
  for (std::uint32_t s = 0; s < endpoint.subgroup_count(); ++s) {
    workers_[s % workers]->add(s, endpoint.multicast(s));
  }
}

void ReceiveTeam::publish(const ReceiveView& view) {
  auto next = std::make_shared<const ReceiveView>(view);
  Retired& old = keep(view_);
  view_ = std::move(next);  // nothing below throws, so no view is published in part
  board_.view.store(view_.get(), std::memory_order_seq_cst);
  board_.publications.fetch_add(1, std::memory_order_seq_cst);
  note(old.grace);
  for (const auto& worker : workers_) {
    if (worker->holds_unexpected()) worker->rouse();
  }
}

void ReceiveTeam::retire(std::shared_ptr<const void> object) {
  note(keep(std::move(object)).grace);
}

/// Keeps an object alive until the grace period in the result has passed. The caller must begin
/// this grace period by `note`.
ReceiveTeam::Retired& ReceiveTeam::keep(std::shared_ptr<const void> object) {
  std::erase_if(retired_, [this](const Retired& one) { return passed(one.grace); });
  return retired_.emplace_back(Retired{std::move(object), GracePeriod(workers_.size())});
}

void ReceiveTeam::note(GracePeriod& grace) const {
  for (std::size_t w = 0; w < workers_.size(); ++w) grace[w] = workers_[w]->pin();
}

ReceiveTeam::GracePeriod ReceiveTeam::grace() const {
  GracePeriod grace(workers_.size());
  note(grace);
  return grace;
}

bool ReceiveTeam::passed(const GracePeriod& grace) const {
  for (std::size_t w = 0; w < grace.size(); ++w) {
    if (grace[w] % 2 != 0 && workers_[w]->pin() == grace[w]) return false;
  }
  return true;
}

std::uint64_t ReceiveTeam::request_drain() {
  const std::uint64_t drain = board_.drains_requested.fetch_add(1, std::memory_order_seq_cst) + 1;
  for (const auto& worker : workers_) worker->rouse();
  return drain;
}

bool ReceiveTeam::polled_once(std::uint64_t drain) const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [&](const auto& worker) { return worker->drains_polled_once() >= drain; });
}

bool ReceiveTeam::looked(std::uint64_t drain) const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [&](const auto& worker) { return worker->drains_answered() >= drain; });
}

void ReceiveTeam::set_eager(bool on) {
  // Only the owner writes `eager`, so the owner may read it without memory ordering.
  if (board_.eager.load(std::memory_order_relaxed) == on) return;
  board_.eager.store(on, std::memory_order_seq_cst);
}

bool ReceiveTeam::take_news() {
  if (!board_.news.load(std::memory_order_relaxed)) return false;
  return board_.news.exchange(false, std::memory_order_seq_cst);
}

const Status* ReceiveTeam::failure() const {
  for (const auto& worker : workers_) {
    if (const Status* failure = worker->failure()) return failure;
  }
  return nullptr;
}

std::optional<Misfit> ReceiveTeam::take_misfit() {
  for (const auto& worker : workers_) {
    if (const auto misfit = worker->take_misfit()) return misfit;
  }
  return std::nullopt;
}

const std::vector<Arrival>& ReceiveTeam::take_arrivals() {
  arrivals_.clear();
  for (const auto& worker : workers_) worker->arrivals().take(arrivals_);
  return arrivals_;
}

void ReceiveTeam::fold(observe::Counters& sum) {
  const auto add = [](std::uint64_t& to, const SingleWriterCounter& tally, std::uint64_t& folded) {
    const std::uint64_t now = tally.value();
    const std::uint64_t fresh = now - std::exchange(folded, now);
    to += fresh;
    return fresh;
  };
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const ReceiveCounters& counters = workers_[w]->counters();
    Folded& folded = folded_[w];
    sum.chunks_received_by_workers += add(sum.chunks_received, counters.received, folded.received);
    add(sum.receive_worker_batches, counters.batches, folded.batches);
    add(sum.chunks_duplicate, counters.duplicate, folded.duplicate);
    add(sum.chunks_stale, counters.stale, folded.stale);
    add(sum.chunks_unexpected, counters.unexpected, folded.unexpected);
    add(sum.chunks_unexpected_dropped, counters.unexpected_dropped, folded.unexpected_dropped);
    add(sum.chunks_out_of_order, counters.out_of_order, folded.out_of_order);
    add(sum.chunks_malformed, counters.malformed, folded.malformed);
    add(sum.chunks_damaged, counters.damaged, folded.damaged);
  }
}

}  // namespace tutti::engine
