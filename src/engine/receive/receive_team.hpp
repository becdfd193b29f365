// The receive workers of one communicator, as its driver sees them: what to receive, what has come,
// and when nobody goes by an old view any more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "device/device.hpp"
#include "engine/receive/receive_view.hpp"
#include "engine/receive/receive_worker.hpp"
#include "observe/counters.hpp"

namespace tutti::engine {

class ReceiveTeam {
 public:
  /// The pins of the workers at a moment.
  using GracePeriod = std::vector<std::uint64_t>;

  /// Deals out the endpoint's queue pairs to `workers` (1 to S) workers. `last_epoch`: of the last
  /// collective begun; `unexpected_bytes`: kept of each queue pair of those that have not.
  ReceiveTeam(device::Endpoint& endpoint, std::uint32_t workers, std::uint32_t last_epoch,
              std::uint64_t unexpected_bytes);

  std::uint32_t size() const { return static_cast<std::uint32_t>(workers_.size()); }
  ReceiveWorker& worker(std::uint32_t at) { return *workers_[at]; }
  /// Sets what wakes the driver where it sleeps, before the workers run.
  void on_news(std::function<void()> wake) { board_.wake_driver = std::move(wake); }

  // By the driver.
  /// From now on workers go by this view; those in the middle of a batch finish it by the old one.
  void publish(const ReceiveView& view);
  /// The collective of the current view.
  std::uint32_t epoch() const { return view_->epoch; }
  /// Keeps what old views point to until no worker goes by one.
  void retire(std::shared_ptr<const void> kept);
  /// `passed` says whether every batch is over that was under way when `grace` was called. A batch
  /// that is waited for wakes the driver if the team is eager since before.
  GracePeriod grace() const;
  bool passed(const GracePeriod& grace) const;

  /// Asks the workers to look. `polled_once` says whether each has, after the question, taken a batch
  /// from each queue pair; `looked`, whether it has found nothing more. Their answers wake the
  /// driver.
  std::uint64_t request_drain();
  bool polled_once(std::uint64_t look) const;
  bool looked(std::uint64_t look) const;
  /// While on, every batch wakes the driver; else the end of a block or of everything.
  void set_eager(bool on);

  bool has_news() const { return board_.news.load(std::memory_order_seq_cst); }
  /// Whether anything has come since the last call.
  bool take_news();
  /// What has come since the last call, valid until the next.
  const std::vector<Arrival>& take_arrivals();
  /// Adds what the workers have counted since the last call.
  void fold(observe::Counters& sum);

 private:
  struct Retired {
    std::shared_ptr<const void> kept;
    GracePeriod grace;
  };
  /// What was folded of a worker's counters.
  struct Folded {
    std::uint64_t batches = 0;
    std::uint64_t received = 0;
    std::uint64_t duplicate = 0;
    std::uint64_t stale = 0;
    std::uint64_t early = 0;
    std::uint64_t unexpected_dropped = 0;
    std::uint64_t out_of_order = 0;
    std::uint64_t malformed = 0;
    std::uint64_t damaged = 0;
  };

  ReceiveBoard board_;
  std::vector<std::unique_ptr<ReceiveWorker>> workers_;
  std::vector<Folded> folded_;
  std::shared_ptr<const ReceiveView> view_;
  std::vector<Retired> retired_;
  std::vector<Arrival> arrivals_;
};

}  // namespace tutti::engine
