#include "device/ip/multicast/group_rejoin.hpp"

#include <utility>

namespace tutti::device::ip {

namespace {

// Time for which a rank stays out of groups that other ranks of its host use, too: the kernel
// reports a membership again only after all sockets of the host have left. The ranks of a host miss
// the same chunks and leave at about the same time, so their times overlap.
constexpr Nanoseconds kAbsence{200'000'000};

}  // namespace

/// Every socket leaves before any socket joins again: all groups of a communicator have one
/// address, and the kernel reports its membership anew only after all sockets have left.
Status GroupRejoin::begin(Instant now, const QueuePairs& pairs, bool shared_host) {
  for (IpMulticastQueuePair* pair : pairs) {
    if (pair != nullptr) pair->leave_group();
  }
  join_at_ = now + kAbsence;
  return shared_host ? Status() : attempt(now, pairs);
}

Status GroupRejoin::attempt(Instant now, const QueuePairs& pairs) {
  Status first;
  for (IpMulticastQueuePair* pair : pairs) {
    if (pair == nullptr) continue;
    if (Status status = pair->join_group(); first.ok()) first = std::move(status);
  }
  join_at_ = first.ok() ? kNever : now + kAbsence;
  return first;
}

}  // namespace tutti::device::ip
