// Lossless mode: a packet leaves a port only when the switch at the far end has room for it.
//
// A link has `credit_bytes` of room at its far end. A packet takes its share when its departure is
// computed and returns it when its last copy has left that switch, which is known as soon as the
// copies' departures are. A packet without credit at its start time waits, and the port wakes up
// when credits return.
//
// A waiting packet keeps its room in its own switch, so blocking spreads towards the senders and
// also delays packets for idle ports (head-of-line blocking). Routes that go up and then down never
// deadlock.
#include "sim/fabric/core/fabric_core.hpp"

namespace tutti::sim {

/// Whether `bytes` have room at `when`, by present knowledge. Reclaims credits that return by then.
bool FabricCore::has_credit(LinkId link, Picoseconds when, std::uint64_t bytes) {
  Credit& credit = credits_[tutti::sim::index(link)];
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
  return credit.taken_bytes == 0 || credit.taken_bytes + bytes <= settings_.credit_bytes;
}

void FabricCore::insert_release(Credit& credit, const Release& room) {
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

/// Returns credits to `link` and wakes its port if it waits for them.
void FabricCore::release(LinkId link, const Release& room) {
  insert_release(credits_[tutti::sim::index(link)], room);
  if (waits(link)) wake_at(link, room.time);
}

void FabricCore::wake_at(LinkId link, Picoseconds when) {
  Credit& credit = credits_[tutti::sim::index(link)];
  when = std::max(when, queue_.now());
  if (when >= credit.wake_at) return;
  credit.wake_at = when;
  queue_.push({when, event_key(EventKind::fabric_credit, tutti::sim::index(link)), 0});
}

void FabricCore::wait_for_credit(LinkId link, Incoming& in, const TrainPart& part) {
  const Packet& packet = flights_[part.flight].packet;
  if (in.hold == 0) {
    in.hold = holds_.take();
    holds_[in.hold] = {in.link, 0, in.left_at};
  }
  ++holds_[in.hold].waiting;
  const std::uint32_t waiter = waiters_.take();
  const Picoseconds ready = std::max(in.ready, in.tail - packet_time(link, packet));
  waiters_[waiter] = {part, ready, in.hold, 0};
  ++flights_[part.flight].references;
  counters_.blocked += part.count;
  Credit& credit = credits_[tutti::sim::index(link)];
  if (credit.first_waiter != 0) {
    waiters_[credit.last_waiter].next = waiter;
    credit.last_waiter = waiter;
    return;
  }
  credit.first_waiter = credit.last_waiter = waiter;
  if (credit.next_release < credit.releases.size()) {
    wake_at(link, credit.releases[credit.next_release].time);
  }
}

/// Sends the packets that wait at a port, as far as credits allow.
void FabricCore::wake(LinkId link) {
  Credit& credit = credits_[tutti::sim::index(link)];
  credit.wake_at = kForever;
  while (credit.first_waiter != 0) {
    const std::uint32_t place = credit.first_waiter;
    const Waiter waiter = waiters_[place];
    const Packet packet = flights_[waiter.part.flight].packet;
    const FabricPort& port = ports_[tutti::sim::index(link)];
    const Picoseconds begin = std::max({waiter.ready, port.busy_until, queue_.now()});
    if (!has_credit(link, begin, packet.wire_bytes)) {
      if (credit.next_release < credit.releases.size()) {
        wake_at(link, credit.releases[credit.next_release].time);
      }
      return;
    }
    credit.first_waiter = waiter.next;
    waiters_.give_back(place);
    const Picoseconds end = begin + packet_time(link, packet);
    const bool injected = holds_[waiter.hold].in == kNoLink;
    if (is_down(link)) {
      drop(link, begin, waiter.part, DropReason::link_down);
    } else {
      credit.taken_bytes += packet.wire_bytes;
      start(link, begin, waiter.part);
    }
    copy_left(waiter.hold, end, packet.wire_bytes);
    unreference(waiter.part.flight);
    if (injected && waiter.part.first + 1 == packet.count && !packet.background) {
      sink_.departed(end, packet.source, packet);
    }
  }
}

void FabricCore::copy_left(std::uint32_t hold, Picoseconds when, std::uint32_t bytes) {
  Hold& kept = holds_[hold];
  kept.left_at = std::max(kept.left_at, when);
  if (--kept.waiting != 0) return;
  const Hold gone = kept;
  holds_.give_back(hold);
  if (gone.in == kNoLink) return;
  const Picoseconds latency = latencies_[topology_.link(gone.in).spec];
  release(gone.in, {gone.left_at + latency, {}, bytes, 1});
}

/// All copies of the input have left or wait: computes when its room is free.
void FabricCore::finish_input(const Incoming& in, const TrainPart& part) {
  if (in.hold != 0) {
    Hold& hold = holds_[in.hold];
    hold.left_at = std::max(hold.left_at, in.left_at);
    return;
  }
  const Packet& packet = flights_[part.flight].packet;
  const Picoseconds latency = latencies_[topology_.link(in.link).spec];
  const std::int64_t later = part.count - 1;
  release(in.link, {in.left_at - in.left_spacing * later + latency, in.left_spacing,
                    packet.wire_bytes, part.count});
}

}  // namespace tutti::sim
