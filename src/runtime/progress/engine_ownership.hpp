// Which thread owns the engine: a state machine under one mutex, with the waiting for it.
//
// An application thread that waits for a request owns the engine and polls it; the background
// thread owns it otherwise. Between its rounds the background thread watches the network without
// owning the engine, so that an application thread takes over without waking it.
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
// An inline step also leads from (none, off) and (none, disarmed) to application and back: it leaves
// the watch as it is, since it touches nothing that the watch waits for. All other pairs of state
// and event are illegal; (background, armed) and (background, disarmed) do not exist.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "tutti/units.hpp"

namespace tutti::runtime {

enum class Owner : std::uint8_t { none, application, background };

/// The state of the progress thread between its rounds of polling.
enum class Watch : std::uint8_t {
  off,      ///< the thread is parked, or owns the engine
  armed,    ///< the thread sleeps until there is news, and then takes the engine
  disarmed  ///< the thread still sleeps, but an application thread has taken the engine since
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

/// The state after an event; nothing if the event cannot happen in `state`.
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

/// The ownership of one engine, and the threads that wait for it to change. Thread-safe.
class EngineOwnership {
 public:
  using Lock = std::unique_lock<std::mutex>;

  Lock lock() { return Lock(mutex_); }

  // Functions that need the lock.

  EngineState state() const { return state_; }
  Owner owner() const { return state_.owner; }
  /// Carries out an event; throws std::bad_optional_access if the event cannot happen in this
  /// state.
  void apply(EngineEvent event) { state_ = transition(state_, event).value(); }
  /// Waits until the owner has left the engine; calls `notify_owner` to make it leave.
  template <typename Notify>
  void await_release(Lock& lock, Notify&& notify_owner) {
    wanted_.fetch_add(1);
    do {
      notify_owner();
    } while (!changed_.wait_for(lock, kMaxWait, [this] { return state_.owner == Owner::none; }));
    wanted_.fetch_sub(1);
  }
  /// Waits at most `time` for `condition`, which a change of the owner or a completion may make
  /// true.
  template <typename Rep, typename Period, typename Condition>
  void await_change(Lock& lock, std::chrono::duration<Rep, Period> time, Condition&& condition) {
    waiters_.fetch_add(1);
    changed_.wait_for(lock, time, condition);
    waiters_.fetch_sub(1);
  }

  // Functions for any thread.

  /// True if another thread waits for the owner to leave. Only a hint if the lock is not held.
  bool wanted() const { return wanted_.load(std::memory_order_relaxed) > 0; }
  void notify_all() { changed_.notify_all(); }
  /// Notifies threads that wait for a completion.
  void notify_waiters() {
    if (waiters_.load(std::memory_order_relaxed) > 0) changed_.notify_all();
  }
  /// Notifies threads that wait for the engine to become free.
  void notify_released() {
    if (wanted_.load() > 0 || waiters_.load() > 0) changed_.notify_all();
  }
  /// True if the calling thread owns this engine.
  bool owned_by_caller() const { return owned_here == this; }
  void set_owned_by_caller(bool owned) { owned_here = owned ? this : nullptr; }

  /// Longest wait for a condition. pthread_cond_signal of glibc 2.25 to 2.40 can lose a wake-up, so
  /// every wait must end by itself.
  static constexpr Nanoseconds kMaxWait{1'000'000'000};

 private:
  inline static constinit thread_local const EngineOwnership* owned_here = nullptr;

  std::mutex mutex_;  ///< guards state_; never held while polling
  std::condition_variable changed_;
  EngineState state_;
  std::atomic<int> wanted_{0};   ///< number of threads in await_release
  std::atomic<int> waiters_{0};  ///< number of threads in await_change
};

}  // namespace tutti::runtime
