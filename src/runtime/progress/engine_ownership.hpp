// The ownership of the engine: a state machine under one mutex, and the waits of threads for the
// engine.
//
// An application thread that waits for a request owns the engine and polls it; otherwise the
// progress thread (`background`) owns it. Between its rounds of polling the progress thread sleeps
// on the network without owning the engine, so that an application thread can take the engine
// without waking it.
//
//            background_takes                 background_watches
//   (none, off) <--------> (background, off) ----------------> (none, armed) <---> (application,
//      ^   background_leaves      ^                               |     |    steps      armed)
//      |                          +-------- watch_ends -----------+     |    inline,
//      | application_takes,                                             |    leaves
//      | application_leaves                                             | application_takes
//      v                                                                v
//   (application, off)                            (none, disarmed) <---> (application, disarmed)
//      ^                                              |       application_      |
//      |                                              |       takes, leaves     |
//      +------- watch_ends -------------------------- | ------------------------+
//   (none, off) <------- watch_ends ------------------+
//
// An inline step also leads from (none, off) and (none, disarmed) to `application` and back. It
// does not change the watch, because it takes no event for which the progress thread sleeps. All
// other pairs of state and event are illegal; (background, armed) and (background, disarmed) do not
// exist.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "tutti/units.hpp"

namespace tutti::runtime {

enum class Owner : std::uint8_t { none, application, background };

/// Whether the progress thread sleeps on the network, and whether it takes the engine when it
/// wakes.
enum class Watch : std::uint8_t {
  off,      ///< the progress thread is parked, or owns the engine
  armed,    ///< the progress thread sleeps on the network, and takes the engine when it wakes
  disarmed  ///< the progress thread still sleeps, but an application thread has taken the engine
};

enum class EngineEvent : std::uint8_t {
  application_takes,
  application_steps_inline,
  application_leaves,
  background_takes,
  background_watches,
  background_leaves,
  watch_ends
};

struct EngineState {
  Owner owner = Owner::none;
  Watch watch = Watch::off;
  friend bool operator==(const EngineState&, const EngineState&) = default;
};

/// The state that follows `state` after an event; nothing if the event is illegal in `state`.
constexpr std::optional<EngineState> transition(EngineState state, EngineEvent event) {
  const bool free = state.owner == Owner::none;
  switch (event) {
    case EngineEvent::application_takes:
      if (!free) return std::nullopt;
      return EngineState{Owner::application,
                         state.watch == Watch::off ? Watch::off : Watch::disarmed};
    case EngineEvent::application_steps_inline:
      if (!free) return std::nullopt;
      return EngineState{Owner::application, state.watch};
    case EngineEvent::application_leaves:
      if (state.owner != Owner::application) return std::nullopt;
      return EngineState{Owner::none, state.watch};
    case EngineEvent::background_takes:
      if (state != EngineState{}) return std::nullopt;
      return EngineState{Owner::background, Watch::off};
    case EngineEvent::background_watches:
      if (state.owner != Owner::background) return std::nullopt;
      return EngineState{Owner::none, Watch::armed};
    case EngineEvent::background_leaves:
      if (state.owner != Owner::background) return std::nullopt;
      return EngineState{};
    case EngineEvent::watch_ends:
      if (state.watch == Watch::disarmed) return EngineState{state.owner, Watch::off};
      if (state != EngineState{Owner::none, Watch::armed}) return std::nullopt;
      return EngineState{Owner::background, Watch::off};
  }
  return std::nullopt;
}

/// Records which thread owns an engine, and lets other threads wait for a change of owner.
/// Thread-safe.
class EngineOwnership {
 public:
  using Lock = std::unique_lock<std::mutex>;

  Lock lock() { return Lock(mutex_); }

  // Functions whose caller must hold the lock.

  EngineState state() const { return state_; }
  Owner owner() const { return state_.owner; }
  /// Changes the state by an event; throws std::bad_optional_access if the event is illegal in this
  /// state.
  void apply(EngineEvent event) { state_ = transition(state_, event).value(); }
  /// Calls `notify_owner`, which makes the owner release the engine, and waits for the release.
  template <typename Notify>
  void await_release(Lock& lock, Notify&& notify_owner) {
    wanted_.fetch_add(1);
    do {
      notify_owner();
    } while (!changed_.wait_for(lock, kMaxWait, [this] { return state_.owner == Owner::none; }));
    wanted_.fetch_sub(1);
  }
  /// Waits until `condition` is true, but at most for `time`. Tests the condition after each change
  /// of the owner and after each completion.
  template <typename Rep, typename Period, typename Condition>
  void await_change(Lock& lock, std::chrono::duration<Rep, Period> time, Condition&& condition) {
    waiters_.fetch_add(1);
    changed_.wait_for(lock, time, condition);
    waiters_.fetch_sub(1);
  }

  // Functions for any thread.

  /// True if another thread waits until the owner releases the engine. Without the lock the result
  /// is only a hint.
  bool wanted() const { return wanted_.load(std::memory_order_relaxed) > 0; }
  void notify_all() { changed_.notify_all(); }
  /// Notifies threads that wait for a completion. The caller must not hold the lock.
  void notify_waiters() {
    // Unlike a load, fetch_add(0) cannot be moved before the stores that end a call. Taking the
    // lock ensures that a waiting thread either has seen these stores or sleeps already.
    if (waiters_.fetch_add(0) == 0) return;
    { const Lock held = lock(); }
    changed_.notify_all();
  }
  /// Notifies threads that wait for the engine to become free.
  void notify_released() {
    if (wanted_.load() > 0 || waiters_.load() > 0) changed_.notify_all();
  }
  /// True if the calling thread owns this engine.
  bool owned_by_caller() const {
    return owner_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  /// Records whether the calling thread owns this engine. The record is kept for each engine,
  /// because a thread may own several: a completion callback of one engine may poll another engine.
  void set_owned_by_caller(bool owned) {
    owner_thread_.store(owned ? std::this_thread::get_id() : std::thread::id(),
                        std::memory_order_relaxed);
  }

  /// Longest sleep in one wait. In glibc 2.25 to 2.40 pthread_cond_signal can lose a wake-up, so no
  /// wait may depend on a wake-up.
  static constexpr Nanoseconds kMaxWait{1'000'000'000};

 private:
  std::mutex mutex_;  ///< guards state_; never held while polling
  std::condition_variable changed_;
  EngineState state_;
  std::atomic<std::thread::id> owner_thread_{};
  std::atomic<int> wanted_{0};   ///< number of threads in await_release
  std::atomic<int> waiters_{0};  ///< number of threads in await_change
};

}  // namespace tutti::runtime
