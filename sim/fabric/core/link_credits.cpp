#include "sim/fabric/core/link_credits.hpp"

#include <algorithm>

namespace tutti::sim {

LinkCredits::LinkCredits(EventQueue& queue, const Topology& topology, const LinkTiming& timing,
                         const FabricSettings& settings)
    : queue_(queue), timing_(timing), credit_bytes_(settings.credit_bytes) {
  if (settings.flow_control == FlowControl::lossless) credits_.resize(topology.links());
  waiters_.take();  // in waiters_ and holds_, index 0 means "none" and is never given out
  holds_.take();
}

bool LinkCredits::reclaim(LinkId link, Picoseconds when, std::uint64_t bytes) {
  Credit& credit = credits_[index(link)];
  while (credit.next_release < credit.releases.size() &&
         credit.releases[credit.next_release].time <= when) {
    Release room = credit.releases[credit.next_release++];
    std::uint32_t count = room.count;
    if (count > 1 && room.spacing.count > 0) {
      const std::int64_t passed = (when - room.time).count / room.spacing.count + 1;
      count = static_cast<std::uint32_t>(std::min<std::int64_t>(passed, count));
    }
    credit.taken_bytes -= std::uint64_t{room.bytes} * count;
    room.count -= count;
    if (room.count == 0) continue;
    room.time += room.spacing * count;
    insert_release(credit, room);
  }
  if (credit.next_release == credit.releases.size()) {
    credit.releases.clear();
    credit.next_release = 0;
  }
  return credit.taken_bytes == 0 || credit.taken_bytes + bytes <= credit_bytes_;
}

void LinkCredits::insert_release(Credit& credit, const Release& room) {
  if (credit.next_release > 32 && credit.next_release > credit.releases.size() / 2) {
    credit.releases.erase(credit.releases.begin(), credit.releases.begin() + credit.next_release);
    credit.next_release = 0;
  }
  std::size_t at = credit.releases.size();
  credit.releases.push_back(room);
  for (; at > credit.next_release && room.time < credit.releases[at - 1].time; --at) {
    credit.releases[at] = credit.releases[at - 1];
  }
  credit.releases[at] = room;
}

void LinkCredits::release(LinkId link, const Release& room) {
  insert_release(credits_[index(link)], room);
  if (waits(link)) wake_at(link, room.time);
}

void LinkCredits::wake_at(LinkId link, Picoseconds when) {
  Credit& credit = credits_[index(link)];
  when = std::max(when, queue_.now());
  if (when >= credit.wake_at) return;
  credit.wake_at = when;
  queue_.push({when, event_key(EventKind::fabric_credit, index(link)), 0});
}

void LinkCredits::wake_at_next_release(LinkId link) {
  const Credit& credit = credits_[index(link)];
  if (credit.next_release < credit.releases.size()) {
    wake_at(link, credit.releases[credit.next_release].time);
  }
}

void LinkCredits::wait(LinkId link, Incoming& in, const TrainPart& part, Picoseconds ready) {
  if (in.hold == 0) {
    in.hold = holds_.take();
    holds_[in.hold] = {in.link, 0, in.left_at};
  }
  ++holds_[in.hold].waiting;
  const std::uint32_t waiter = waiters_.take();
  waiters_[waiter] = {part, ready, in.hold, 0};
  Credit& credit = credits_[index(link)];
  if (credit.first_waiter != 0) {
    waiters_[credit.last_waiter].next = waiter;
    credit.last_waiter = waiter;
    return;
  }
  credit.first_waiter = credit.last_waiter = waiter;
  wake_at_next_release(link);
}

void LinkCredits::remove_first_waiter(LinkId link) {
  Credit& credit = credits_[index(link)];
  const std::uint32_t removed = credit.first_waiter;
  credit.first_waiter = waiters_[removed].next;
  waiters_.give_back(removed);
}

void LinkCredits::copy_left(std::uint32_t hold, Picoseconds when, std::uint32_t bytes) {
  Hold& kept = holds_[hold];
  kept.left_at = std::max(kept.left_at, when);
  if (--kept.waiting != 0) return;
  const Hold gone = kept;
  holds_.give_back(hold);
  if (gone.in == kNoLink) return;
  release(gone.in, {gone.left_at + timing_.latency(gone.in), {}, bytes, 1});
}

void LinkCredits::finish_input(const Incoming& in, const TrainPart& part,
                               std::uint32_t wire_bytes) {
  if (in.hold != 0) {
    Hold& hold = holds_[in.hold];
    hold.left_at = std::max(hold.left_at, in.left_at);
    return;
  }
  const std::int64_t later = part.count - 1;
  release(in.link, {in.left_at - in.left_spacing * later + timing_.latency(in.link),
                    in.left_spacing, wire_bytes, part.count});
}

std::size_t LinkCredits::bytes() const {
  std::size_t bytes = credits_.size() * sizeof(Credit) + waiters_.bytes() + holds_.bytes();
  for (const Credit& credit : credits_) bytes += credit.releases.capacity() * sizeof(Release);
  return bytes;
}

}  // namespace tutti::sim
