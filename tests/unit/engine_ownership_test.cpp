// Tests the state machine of the engine's ownership. A state tells which thread is the owner and
// whether the background thread watches the network; only legal transitions may succeed.
#include "runtime/progress/engine_ownership.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <thread>

#include <vector>

namespace tutti::runtime {
namespace {

constexpr EngineState kFree{};
constexpr EngineState kArmed{Owner::none, Watch::armed};
constexpr EngineState kDisarmed{Owner::none, Watch::disarmed};
constexpr EngineState kApplication{Owner::application, Watch::off};
constexpr EngineState kInlineStep{Owner::application, Watch::armed};
constexpr EngineState kApplicationBeside{Owner::application, Watch::disarmed};
constexpr EngineState kBackground{Owner::background, Watch::off};

struct Arrow {
  EngineState from;
  EngineEvent event;
  EngineState to;
};

constexpr std::array kArrows{
    Arrow{kFree, EngineEvent::application_takes, kApplication},
    Arrow{kArmed, EngineEvent::application_takes, kApplicationBeside},
    Arrow{kDisarmed, EngineEvent::application_takes, kApplicationBeside},
    Arrow{kFree, EngineEvent::application_steps_inline, kApplication},
    Arrow{kArmed, EngineEvent::application_steps_inline, kInlineStep},
    Arrow{kDisarmed, EngineEvent::application_steps_inline, kApplicationBeside},
    Arrow{kApplication, EngineEvent::application_leaves, kFree},
    Arrow{kInlineStep, EngineEvent::application_leaves, kArmed},
    Arrow{kApplicationBeside, EngineEvent::application_leaves, kDisarmed},
    Arrow{kFree, EngineEvent::background_takes, kBackground},
    Arrow{kBackground, EngineEvent::background_watches, kArmed},
    Arrow{kBackground, EngineEvent::background_leaves, kFree},
    Arrow{kArmed, EngineEvent::watch_ends, kBackground},
    Arrow{kDisarmed, EngineEvent::watch_ends, kFree},
    Arrow{kApplicationBeside, EngineEvent::watch_ends, kApplication},
};

TEST(EngineOwnership, Transition_ofEveryStateAndEvent_isThatOfTheStateDiagram) {
  for (const Owner owner : {Owner::none, Owner::application, Owner::background}) {
    for (const Watch watch : {Watch::off, Watch::armed, Watch::disarmed}) {
      if (owner == Owner::background && watch != Watch::off) continue;  // impossible state
      for (int e = 0; e <= static_cast<int>(EngineEvent::watch_ends); ++e) {
        const EngineState from{owner, watch};
        const auto event = static_cast<EngineEvent>(e);
        std::optional<EngineState> expected;
        for (const Arrow& arrow : kArrows)
          if (arrow.from == from && arrow.event == event) expected = arrow.to;
        EXPECT_EQ(transition(from, event), expected)
            << "owner " << static_cast<int>(owner) << ", watch " << static_cast<int>(watch)
            << ", event " << e;
      }
    }
  }
}

TEST(EngineOwnership, Transitions_fromTheFreeEngine_reachOnlyTheSevenLegalStates) {
  std::vector<EngineState> reached{kFree};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (int e = 0; e <= static_cast<int>(EngineEvent::watch_ends); ++e) {
      const auto next = transition(reached[i], static_cast<EngineEvent>(e));
      if (next && std::find(reached.begin(), reached.end(), *next) == reached.end())
        reached.push_back(*next);
    }
  }
  EXPECT_EQ(reached.size(), 7u);
  for (const EngineState& state : reached)
    EXPECT_FALSE(state.owner == Owner::background && state.watch != Watch::off);
}

TEST(EngineOwnership, Apply_ofAnIllegalEvent_throws) {
  EngineOwnership ownership;
  const EngineOwnership::Lock lock = ownership.lock();
  EXPECT_THROW(ownership.apply(EngineEvent::background_leaves), std::bad_optional_access);
  EXPECT_EQ(ownership.state(), kFree);
}

TEST(EngineOwnership, AwaitRelease_ifTheOwnerLeavesWhenNotified_returnsWithTheEngineFree) {
  EngineOwnership ownership;
  {
    const EngineOwnership::Lock lock = ownership.lock();
    ownership.apply(EngineEvent::background_takes);
  }
  std::thread owner([&] {
    while (!ownership.wanted()) std::this_thread::yield();
    {
      const EngineOwnership::Lock lock = ownership.lock();
      ownership.apply(EngineEvent::background_leaves);
    }
    ownership.notify_released();
  });
  {
    EngineOwnership::Lock lock = ownership.lock();
    bool notified = false;
    ownership.await_release(lock, [&] { notified = true; });
    EXPECT_TRUE(notified);
    EXPECT_EQ(ownership.state(), kFree);
  }
  EXPECT_FALSE(ownership.wanted());
  owner.join();
}

TEST(EngineOwnership, OwnedByCaller_forAnotherThreadOrEngine_isFalse) {
  EngineOwnership ownership;
  const EngineOwnership other;
  ownership.set_owned_by_caller(true);
  EXPECT_TRUE(ownership.owned_by_caller());
  EXPECT_FALSE(other.owned_by_caller());
  std::thread([&] { EXPECT_FALSE(ownership.owned_by_caller()); }).join();
  ownership.set_owned_by_caller(false);
  EXPECT_FALSE(ownership.owned_by_caller());
}

TEST(EngineOwnership, OwnedByCaller_afterAnotherEngineWasOwnedToo_isStillTrue) {
  EngineOwnership outer;
  EngineOwnership inner;
  outer.set_owned_by_caller(true);
  inner.set_owned_by_caller(true);
  EXPECT_TRUE(outer.owned_by_caller());
  inner.set_owned_by_caller(false);
  EXPECT_TRUE(outer.owned_by_caller());
}

}  // namespace
}  // namespace tutti::runtime
