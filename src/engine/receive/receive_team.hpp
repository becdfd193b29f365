// The receive workers of one communicator as its owner sees them: it publishes the collective to
// receive, collects arrivals, and learns when no worker uses an old view any more.
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
  /// Read guards of the workers at one moment.
  using GracePeriod = std::vector<std::uint64_t>;

  /// Distributes the endpoint's queue pairs over `workers` (1 to S) workers. `last_epoch`: of the
  /// last collective begun; `unexpected_bytes`: limit per queue pair for chunks of later ones.
  ReceiveTeam(device::Endpoint& endpoint, std::uint32_t workers, std::uint32_t last_epoch,
              std::uint64_t unexpected_bytes);

  std::uint32_t size() const { return static_cast<std::uint32_t>(workers_.size()); }
  ReceiveWorker& worker(std::uint32_t at) { return *workers_[at]; }
  /// Sets the function that wakes a sleeping owner, before the workers run.
  void on_news(std::function<void()> wake) { board_.wake_owner = std::move(wake); }

  // Called by the owner.
  /// Makes workers use this view from now on; a batch in progress is finished with the old one.
  void publish(const ReceiveView& view);
  /// The collective of the current view.
  std::uint32_t epoch() const { return view_->epoch; }
  /// Keeps the object that old views point to until no worker uses one.
  void retire(std::shared_ptr<const void> object);
  /// `passed` tells whether every batch that was in progress at the call of `grace` has ended. The
  /// end of such a batch wakes the owner if the team was eager before.
  GracePeriod grace() const;
  bool passed(const GracePeriod& grace) const;

  /// Asks the workers to poll. `polled_once`: each has since taken a batch from each of its queue
  /// pairs; `looked`: each has found nothing more. Their answers wake the owner.
  std::uint64_t request_drain();
  bool polled_once(std::uint64_t drain) const;
  bool looked(std::uint64_t drain) const;
  /// While on, every batch wakes the owner; otherwise only the end of a block or of all.
  void set_eager(bool on);

  bool has_news() const { return board_.news.load(std::memory_order_seq_cst); }
  /// Whether anything has arrived since the last call.
  bool take_news();
  /// Why the thread of a worker failed it; null if none did.
  const Status* failure() const;
  /// Arrivals since the last call, valid until the next.
  const std::vector<Arrival>& take_arrivals();
  /// Adds the workers' counts since the last call.
  void fold(observe::Counters& sum);

 private:
  struct Retired {
    std::shared_ptr<const void> object;
    GracePeriod grace;
  };
  /// Counts of one worker that were already added.
  struct Folded {
    std::uint64_t batches = 0;
    std::uint64_t received = 0;
    std::uint64_t duplicate = 0;
    std::uint64_t stale = 0;
    std::uint64_t unexpected = 0;
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
