#include "device/ip/multicast/group_rejoin.hpp"

#include <utility>

namespace tutti::device::ip {

namespace {

// Time for which a rank stays out of groups that other ranks of its host use, too. The kernel
// reports a new membership only after all sockets of the host have left, and the ranks of a host
// leave at about the same time, because they miss the same chunks.
constexpr Nanoseconds kAbsence{200'000'000};

}  // namespace

/// Every socket leaves before any socket joins again. All groups of a communicator have the same
/// address, and the kernel reports a new membership of that address only after all sockets have
/// left it.
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
