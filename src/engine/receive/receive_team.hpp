// The receive workers of one communicator, as the owner of the engine sees them. The owner
// publishes the collective to receive, collects arrivals, and learns when no worker uses an old
// view any more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.hpp"
#include "engine/receive/receive_view.hpp"
#include "engine/receive/receive_worker.hpp"
#include "observe/counters.hpp"

namespace tutti::engine {

class ReceiveTeam {
 public:
  /// A grace period: the value of each worker's read guard when the period began.
  using GracePeriod = std::vector<std::uint64_t>;

  /// Distributes the endpoint's queue pairs over `workers` workers; there are at most as many
  /// workers as subgroups. `last_epoch` is the epoch of the last collective begun.
  /// `unexpected_bytes` limits, for each queue pair, the stored chunks of later collectives.
  ReceiveTeam(device::Endpoint& endpoint, std::uint32_t workers, std::uint32_t last_epoch,
              std::uint64_t unexpected_bytes);

  std::uint32_t size() const { return static_cast<std::uint32_t>(workers_.size()); }
  ReceiveWorker& worker(std::uint32_t at) { return *workers_[at]; }
  /// Sets the function that wakes a sleeping owner; must precede the workers' start.
  void on_news(std::function<void()> wake) { board_.wake_owner = std::move(wake); }

  // Functions for the owner of the engine.

  /// Makes the workers use `view` from now on; a worker that has a batch in progress finishes it
  /// with the old view.
  void publish(const ReceiveView& view);
  /// The epoch of the collective in the view that was published last.
  std::uint32_t epoch() const { return view_->epoch; }
  /// Keeps an object alive until no worker uses an old view that points to it.
  void retire(std::shared_ptr<const void> object);
  /// `grace` records which workers have a batch in progress, and `passed` is true once all these
  /// batches have ended. To be woken at the end of each batch, the owner must first call
  /// set_eager(true).
  GracePeriod grace() const;
  bool passed(const GracePeriod& grace) const;

  /// Asks the workers to poll, and returns the number of this request. `polled_once` then tells
  /// whether each worker has polled its queue pairs, and `looked` whether each worker has found all
  /// of them empty. The workers' answers wake the owner.
  std::uint64_t request_drain();
  bool polled_once(std::uint64_t drain) const;
  bool looked(std::uint64_t drain) const;
  /// If `on`, every batch of chunks wakes the owner. Otherwise a batch wakes the owner only if it
  /// has the last chunk of a block or completes the collective.
  void set_eager(bool on);

  bool has_news() const { return board_.news.load(std::memory_order_seq_cst); }
  /// Returns true if anything has arrived since the last call.
  bool take_news();
  /// The reason why the thread of a worker failed the communicator; null if none did.
  const Status* failure() const;
  /// Moves out a reported Misfit, a chunk that does not fit this rank's call; nothing if there is
  /// none.
  std::optional<Misfit> take_misfit();
  /// Returns the arrivals since the last call; they are valid until the next call.
  const std::vector<Arrival>& take_arrivals();
  /// Adds to `sum` what all workers have counted since the last call.
  void fold(observe::Counters& sum);

 private:
  struct Retired {
    std::shared_ptr<const void> object;
    GracePeriod grace;
  };
  Retired& keep(std::shared_ptr<const void> object);
  void note(GracePeriod& grace) const;

  /// The counts of one worker at the last call of `fold`. The next call adds only the increase.
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
