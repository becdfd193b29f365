// The peers from which this rank awaits something. The silence of a watched peer is a failure.
//
// If nothing progresses, the path to a watched peer is tested with a long frame. Without this test
// a path that loses only long packets would not be noticed, because waiting ranks send only short
// ones.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "engine/peers/closed_peers.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class PeerWatch {
 public:
  /// `endpoint` and `closed` must outlive this object. `path_test_interval`: time without progress
  /// before a path test; 0: no test.
  PeerWatch(Rank me, std::uint32_t size, device::Endpoint& endpoint, const ClosedPeers& closed,
            Nanoseconds path_test_interval)
      : me_(me),
        size_(size),
        endpoint_(endpoint),
        closed_(closed),
        path_test_interval_(path_test_interval),
        path_test_at_(path_test_interval.count() > 0 ? Instant{} : kNever) {}

  /// Watches a peer until `unwatch` is called for it, or until `unwatch_all` is called because no
  /// collective runs. A peer that has closed is not watched.
  void watch(Rank peer);
  void watch_all();
  /// Watches the two neighbours of this rank.
  void watch_neighbours();
  /// Stops watching a peer, so that its silence is no failure any more.
  void unwatch(Rank peer);
  void unwatch_all();

  bool path_test_due(Instant now) const { return now >= path_test_at_; }
  /// Tests the paths to watched peers if no collective has progressed since the last call.
  /// `progress` is a number that changes whenever a collective progresses.
  void test_paths(Instant now, std::uint64_t progress);
  void stop_path_tests() { path_test_at_ = kNever; }
  /// The time at which the next path test is due.
  Instant next_deadline() const { return watched_.empty() ? kNever : path_test_at_; }

 private:
  Rank me_;
  std::uint32_t size_;
  device::Endpoint& endpoint_;
  const ClosedPeers& closed_;
  std::vector<Rank> watched_;
  Nanoseconds path_test_interval_;
  Instant path_test_at_;
  std::uint64_t progress_ = 0;  ///< argument `progress` of the last call of `test_paths`
};

}  // namespace tutti::engine
