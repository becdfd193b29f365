#include "sim/fabric/event_queue.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "base/random.hpp"

namespace tutti::sim {
namespace {

struct Later {
  bool operator()(const Event& a, const Event& b) const { return b < a; }
};
using Reference = std::priority_queue<Event, std::vector<Event>, Later>;

/// Draws the delay of an event after the current time, in picoseconds.
using Delay = std::function<std::int64_t(Random&)>;

struct Load {
  std::string name;
  Delay delay;
};

std::int64_t below(Random& random, std::uint64_t bound) {
  return static_cast<std::int64_t>(random.below(bound));
}

/// Loads that are difficult for a timing wheel: all events at one instant, long gaps, a mix of very
/// short and very long delays, and bursts.
std::vector<Load> loads() {
  return {
      {"packets", [](Random& r) { return 500'000 + below(r, 16'000); }},
      {"all at one instant", [](Random&) { return 0; }},
      {"same few instants", [](Random& r) { return below(r, 3) * 1'000'000; }},
      {"dense", [](Random& r) { return below(r, 50); }},
      {"sparse", [](Random& r) { return below(r, 1'000'000'000'000); }},
      {"two scales",
       [](Random& r) { return r.chance_ppm(10'000) ? 1'000'000'000 : below(r, 2000); }},
      {"powers of two", [](Random& r) { return std::int64_t{1} << r.below(44); }},
      {"edges of buckets",
       [](Random& r) { return (below(r, 40) << r.below(24)) + below(r, 3) - 1; }},
      {"waves",
       [](Random& r) { return r.chance_ppm(1000) ? 3'000'000'000 : 1 + below(r, 9) * 8192; }},
  };
}

Event event_at(Picoseconds time, Random& random) {
  const auto kind = static_cast<EventKind>(random.below(20));
  return {time, event_key(kind, static_cast<std::uint32_t>(random.below(50))), random.below(4)};
}

/// Pushes, pops and peeks in random order, and compares every event with that of a reference queue.
void compare(const Load& load, std::size_t pending, std::uint64_t seed) {
  Random random(seed);
  EventQueue queue;
  Reference reference;
  const auto push = [&] {
    const std::int64_t delay = std::max<std::int64_t>(load.delay(random), 0);
    const Event event = event_at(queue.now() + picoseconds(delay), random);
    queue.push(event);
    reference.push(event);
  };
  for (std::size_t i = 0; i < pending; ++i) push();
  for (std::size_t step = 0; step < 3 * pending + 2000; ++step) {
    // The queue grows, stays constant and drains in turn.
    const bool drain = step / 700 % 3 == 2;
    const std::uint64_t pushes = drain ? 0 : 1 + random.below(step / 700 % 3 == 0 ? 3 : 1);
    for (std::uint64_t i = 0; i < pushes; ++i) push();
    ASSERT_EQ(queue.size(), reference.size());
    if (reference.empty()) continue;
    if (random.chance_ppm(300'000)) {
      ASSERT_EQ(queue.next_time(), reference.top().time) << load.name;
      if (random.chance_ppm(500'000)) push();
    }
    Event event;
    ASSERT_TRUE(queue.pop(event));
    ASSERT_EQ(event, reference.top()) << load.name << " step " << step;
    reference.pop();
  }
  for (Event event; queue.pop(event); reference.pop()) {
    ASSERT_FALSE(reference.empty());
    ASSERT_EQ(event, reference.top()) << load.name;
  }
  EXPECT_TRUE(reference.empty());
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, QueueUnderEachLoad_equalsAPriorityQueue) {
  for (const Load& load : loads()) {
    for (const std::size_t pending : {1u, 30u, 5'000u}) compare(load, pending, pending + 7);
  }
}

// So many events are pending that the narrow buckets of the event wheel cover only the nearest of
// them. Most events pass through coarse buckets first.
TEST(EventQueue, QueueWithManyPendingEvents_equalsAPriorityQueue) {
  const Load packets{"packets and timers", [](Random& r) {
                       const std::int64_t timer =
                           r.chance_ppm(100) ? 20'000'000'000 : 1'000'000'000;
                       return r.chance_ppm(20'000) ? timer : 400'000 + below(r, 1'500'000);
                     }};
  compare(packets, 150'000, 11);
}

TEST(EventQueue, QueueWhoseLoadChanges_equalsAPriorityQueue) {
  const std::vector<Load> all = loads();
  const Load changing{"changing", [&, calls = std::size_t{0}](Random& random) mutable {
                        return all[calls++ / 20'000 % all.size()].delay(random);
                      }};
  compare(changing, 60'000, 1);
}

TEST(EventQueue, OrderDoesNotDependOnTheOrderOfPushes) {
  std::vector<Event> events;
  Random random(3);
  for (int i = 0; i < 4000; ++i) {
    events.push_back(event_at(nanoseconds(below(random, 40)), random));
  }
  std::vector<std::uint64_t> digests;
  for (int order = 0; order < 3; ++order) {
    EventQueue queue;
    for (const Event& event : events) queue.push(event);
    for (Event event; queue.pop(event);) {
    }
    digests.push_back(queue.digest());
    for (std::size_t i = events.size(); i > 1; --i) {
      std::swap(events[i - 1], events[random.below(i)]);
    }
  }
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_EQ(digests[0], digests[2]);
}

TEST(EventQueue, Digest_isEqualForEqualEvents_andDiffersForDifferentEvents) {
  const auto digest = [](std::int64_t time, std::uint32_t target) {
    EventQueue queue;
    queue.push({picoseconds(5), event_key(EventKind::user, 1), 0});
    queue.push({picoseconds(time), event_key(EventKind::user, target), 0});
    for (Event event; queue.pop(event);) {
    }
    EXPECT_EQ(queue.popped(), 2u);
    return queue.digest();
  };
  EXPECT_EQ(digest(9, 2), digest(9, 2));
  EXPECT_NE(digest(9, 2), digest(10, 2));
  EXPECT_NE(digest(9, 2), digest(9, 3));
}

TEST(EventQueue, EventKey_encodesKindTargetAndDetail) {
  const Event event{{}, event_key(EventKind::background, 0xffff'fffeu, 0x12'3456), 0};
  EXPECT_EQ(kind_of(event), EventKind::background);
  EXPECT_EQ(target_of(event), 0xffff'fffeu);
  EXPECT_EQ(detail_of(event), 0x12'3456u);
}

TEST(EventQueue, EmptyQueueHasNoNextTime) {
  EventQueue queue;
  Event event;
  EXPECT_EQ(queue.next_time(), kForever);
  EXPECT_FALSE(queue.pop(event));
  queue.push({milliseconds(3), 1, 2});
  EXPECT_EQ(queue.next_time(), milliseconds(3));
  EXPECT_TRUE(queue.pop(event));
  EXPECT_EQ(queue.now(), milliseconds(3));
  EXPECT_FALSE(queue.pop(event));
}

TEST(SimulatedTime, Picoseconds_areConvertedToInstantsAndBack_includingNever) {
  EXPECT_EQ(from_instant(kNever), kForever);
  EXPECT_EQ(to_instant(kForever), kNever);
  EXPECT_EQ(to_instant(picoseconds(1999)), Instant{1});
  EXPECT_EQ(from_nanoseconds(Nanoseconds(7)), picoseconds(7000));
  const Instant deadline{123'456'789};
  EXPECT_GE(to_instant(from_instant(deadline)), deadline);
}

TEST(SimulatedTime, TimeOfAPacketOnTheWire_isExactToThePicosecond) {
  EXPECT_EQ(WireSpeed(200'000'000'000).time_of(4096), picoseconds(163'840));
  EXPECT_EQ(WireSpeed(400'000'000'000).time_of(1), picoseconds(20));
  EXPECT_EQ(WireSpeed(56'000'000'000).time_of(4122).count, 4122 * 8000 / 56);
  EXPECT_EQ(WireSpeed(10'000'000).time_of(1500), microseconds(1200));
}

}  // namespace
}  // namespace tutti::sim
