// Keeps this rank in its multicast groups while the job runs: joins them again if blocks come only
// by reliable connections, and reports once that joining again does not help.
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
  /// Called with the rank that is not heard and the result of joining again.
  using Report = std::function<void(Rank source, const Status& joined)>;

  /// The referenced objects must outlive this one.
  GroupMembership(std::uint32_t size, device::Endpoint& endpoint, observe::Counters& counters)
      : watch_(size), endpoint_(endpoint), counters_(counters) {}

  /// Sets the function that tells the user; it is called at most once.
  void on_report(Report report) { report_ = std::move(report); }

  bool suspects() const { return watch_.suspects(); }
  /// True if recovery should not wait for multicast, because none has come lately.
  bool lost() const { return watch_.lost(); }
  void heard(Rank source) {
    if (watch_.suspects()) watch_.heard(source);
  }
  void missed(Rank source, std::uint32_t chunks) {
    any_missed_ = true;
    watch_.missed(source, chunks);
  }
  /// Judges the sources of a collective that has ended, after they were recorded.
  void judge(Instant now);

 private:
  protocol::MembershipWatch watch_;
  device::Endpoint& endpoint_;
  observe::Counters& counters_;
  Report report_;
  bool any_missed_ = false;  ///< a source of the collective that is being recorded was missed
};

}  // namespace tutti::engine
