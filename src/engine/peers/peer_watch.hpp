// The peers from which this rank awaits something. While a peer is watched its silence is a
// failure, and a path to it on which nothing progresses is tested with a long frame: missing chunks
// or slots alone make no rank send one, so a path that loses only those would not show.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class PeerWatch {
 public:
  /// `endpoint` outlives this. `path_test_interval`: time without progress before a path test; 0:
  /// no test.
  PeerWatch(Rank me, std::uint32_t size, device::Endpoint& endpoint, Nanoseconds path_test_interval)
      : me_(me),
        size_(size),
        endpoint_(endpoint),
        path_test_interval_(path_test_interval),
        path_test_at_(path_test_interval.count() > 0 ? Instant{} : kNever) {}

  /// Watches a peer until `unwatch`, or `unwatch_all` once no collective runs.
  void watch(Rank peer);
  void watch_all();
  /// Watches the ranks before and after this one.
  void watch_neighbours();
  /// The silence of this peer is no failure from now on.
  void unwatch(Rank peer);
  void unwatch_all();

  bool path_test_due(Instant now) const { return now >= path_test_at_; }
  /// Tests the paths to watched peers if `progress`, a number that every progress of a collective
  /// changes, is that of the last call.
  void test_paths(Instant now, std::uint64_t progress);
  void stop_path_tests() { path_test_at_ = kNever; }
  /// When a path test is due.
  Instant next_deadline() const { return watched_.empty() ? kNever : path_test_at_; }

 private:
  Rank me_;
  std::uint32_t size_;
  device::Endpoint& endpoint_;
  std::vector<Rank> watched_;
  Nanoseconds path_test_interval_;
  Instant path_test_at_;
  std::uint64_t progress_ = 0;  ///< at the last path test
};

}  // namespace tutti::engine
