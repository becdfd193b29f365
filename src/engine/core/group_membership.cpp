#include "engine/core/group_membership.hpp"

namespace tutti::engine {

using Verdict = protocol::MembershipWatch::Verdict;

void GroupMembership::judge(Instant now) {
  if (!std::exchange(any_missed_, false)) return;
  ++counters_.multicast_fallbacks;
  const Verdict verdict = watch_.judge(now);
  if (verdict == Verdict::none) return;
  ++counters_.multicast_rejoins;
  const Status joined = endpoint_.rejoin_groups(now);
  if (verdict == Verdict::rejoin_and_report && report_) report_(watch_.suspect(), joined);
}

}  // namespace tutti::engine
