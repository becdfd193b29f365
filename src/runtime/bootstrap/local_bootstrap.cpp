#include "runtime/bootstrap/local_bootstrap.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/error.hpp"
#include "runtime/bootstrap/store/socket.hpp"
#include "runtime/bootstrap/text.hpp"

namespace tutti::runtime {
namespace {

using GatheredParts = std::shared_ptr<const std::vector<Bytes>>;

/// Carries out the exchanges of a job one after the other. In each exchange the last rank to arrive
/// publishes the result for the waiting ranks.
class Exchange {
 public:
  explicit Exchange(std::uint32_t size) : parts_(size), left_(size, false) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(parts_.size()); }

  Result<GatheredParts> gather(std::uint32_t rank, std::span<const std::byte> mine,
                               Nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    if (!failed_.ok()) return failed_;
    parts_[rank] = Bytes(mine.begin(), mine.end());
    if (missing().empty()) return publish();
    fail_if_someone_left();
    const std::uint64_t my_exchange = exchange_;
    const auto settled = [&] { return exchange_ != my_exchange || !failed_.ok(); };
    if (!changed_.wait_until(lock, deadline_after(timeout), settled)) {
      fail(failure_of(to_ranks(missing()), Code::timeout,
                      "{} did not join exchange {} of the bootstrap within {}: check that all "
                      "ranks run, or give them a longer timeout",
                      describe_ranks(missing()), exchange_, describe_duration(timeout)));
    }
    // If this rank's exchange was completed before the failure, the rank still gets the result.
    if (exchange_ != my_exchange) return latest_;
    return failed_;
  }

  void leave(std::uint32_t rank) {
    const std::lock_guard lock(mutex_);
    left_[rank] = true;
    if (missing().size() < parts_.size()) fail_if_someone_left();
  }

 private:
  GatheredParts publish() {
    auto all = std::make_shared<std::vector<Bytes>>();
    for (auto& part : parts_) all->push_back(std::move(*part));
    parts_.assign(parts_.size(), std::nullopt);
    ++exchange_;
    latest_ = std::move(all);
    changed_.notify_all();
    return latest_;
  }

  std::vector<std::uint32_t> missing() const {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < parts_.size(); ++rank) {
      if (!parts_[rank]) ranks.push_back(rank);
    }
    return ranks;
  }

  void fail_if_someone_left() {
    std::vector<std::uint32_t> gone;
    for (const std::uint32_t rank : missing()) {
      if (left_[rank]) gone.push_back(rank);
    }
    if (gone.empty()) return;
    fail(failure_of(to_ranks(gone), Code::peer_failed,
                    "{} left the job before exchange {} of the bootstrap", describe_ranks(gone),
                    exchange_));
  }

  void fail(Status status) {
    if (failed_.ok()) failed_ = std::move(status);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<Bytes>> parts_;
  std::vector<bool> left_;
  std::uint64_t exchange_ = 0;
  GatheredParts latest_;  ///< result of the last completed exchange; each exchange replaces it
  Status failed_;
};

class LocalBootstrap : public Bootstrap {
 public:
  LocalBootstrap(std::shared_ptr<Exchange> exchange, Rank rank)
      : exchange_(std::move(exchange)), rank_(rank) {}
  ~LocalBootstrap() override { exchange_->leave(index(rank_)); }

  Rank rank() const override { return rank_; }
  std::uint32_t size() const override { return exchange_->size(); }
  std::string description() const override { return "threads of one process"; }
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       Nanoseconds timeout) override {
    auto all = exchange_->gather(index(rank_), mine, timeout);
    if (!all.ok()) return all.status();
    return std::vector<Bytes>(**all);
  }

 private:
  std::shared_ptr<Exchange> exchange_;
  Rank rank_;
};

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> make_local_bootstraps(std::uint32_t size) {
  const auto exchange = std::make_shared<Exchange>(size);
  std::vector<std::unique_ptr<Bootstrap>> bootstraps;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    bootstraps.push_back(std::make_unique<LocalBootstrap>(exchange, rank_of(rank)));
  }
  return bootstraps;
}

}  // namespace tutti::runtime
