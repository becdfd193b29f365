// Keeps this rank in its multicast groups while the job runs: joins them again if blocks of a rank
// arrive only over reliable connections. If joining again does not help, reports this to the user
// once.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "device/device.hpp"
#include "observe/counters.hpp"
#include "protocol/membership_watch.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

class GroupMembership {
 public:
  /// Called with a rank whose multicast does not arrive at this rank, and with the result of
  /// joining the groups again.
  using Report = std::function<void(Rank source, const Status& joined)>;

  /// The referenced objects must outlive this one.
  GroupMembership(std::uint32_t size, device::Endpoint& endpoint, observe::Counters& counters)
      : watch_(size), endpoint_(endpoint), counters_(counters) {}

  /// Sets the function that reports to the user that joining again did not help. It is called at
  /// most once.
  void on_report(Report report) { report_ = std::move(report); }

  bool suspects() const { return watch_.suspects(); }
  bool suspects(Rank source) const { return watch_.suspects(source); }
  /// True if recovery should not wait for multicast, because multicast of some rank has not arrived
  /// lately.
  bool lost() const { return watch_.lost(); }
  void heard(Rank source) {
    if (watch_.suspects()) watch_.heard(source);
  }
  void missed(Rank source, std::uint32_t chunks) {
    any_missed_ = true;
    watch_.missed(source, chunks);
  }
  /// Decides whether this rank joins its groups again. Called after the sources of an ended
  /// collective were recorded by `heard` and `missed`.
  void judge(Instant now);

 private:
  protocol::MembershipWatch watch_;
  device::Endpoint& endpoint_;
  observe::Counters& counters_;
  Report report_;
  /// True: `missed` was called since the last call of `judge`.
  bool any_missed_ = false;
};

}  // namespace tutti::engine
