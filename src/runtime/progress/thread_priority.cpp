#include "runtime/progress/thread_priority.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "observe/log.hpp"

namespace tutti::runtime {

namespace {

constexpr const char* kNiceVariable = "TUTTI_PROGRESS_NICE";
constexpr int kFirstNice = -20;
constexpr int kLastNice = 19;
// Default nice value. A lower value would not let more of a collective overlap with computing
// (docs/decisions/017).
constexpr int kDefaultNice = -10;

/// The first version of the kernel's struct sched_attr, which older C libraries do not declare.
struct SchedulingAttributes {
  std::uint32_t size = 48;
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;  ///< length of a time slice if the policy is SCHED_OTHER
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};

constexpr std::uint64_t kShortestSliceNs = 100'000;  // shortest slice that the kernel accepts
// New threads do not inherit the priority, because a thread that a completion callback starts
// belongs to the application.
constexpr std::uint64_t kNotForChildren = 1;  // the kernel's SCHED_FLAG_RESET_ON_FORK

/// Asks the kernel for the scheduling attributes `wanted` for the calling thread; returns 0, or the
/// errno of the refusal.
int ask_for(const SchedulingAttributes& wanted) {
  return ::syscall(SYS_sched_setattr, 0, &wanted, 0) == 0 ? 0 : errno;
}

SchedulingAttributes fair(int nice) {
  return {.flags = kNotForChildren, .nice = nice, .runtime_ns = kShortestSliceNs};
}

SchedulingAttributes round_robin() {
  return {.policy = SCHED_RR,
          .flags = kNotForChildren,
          .priority = static_cast<std::uint32_t>(::sched_get_priority_min(SCHED_RR))};
}

/// Logs, only once in a process, that threads run at real-time priority, because users do not
/// expect this of a library.
void announce_realtime() {
  static std::atomic_flag announced;
  if (announced.test_and_set()) return;
  observe::inform(
      fmt::format("progress threads run at real-time priority (SCHED_RR) for up to half of a core: "
                  "set {} to a nice value, such as 0, to turn that off",
                  kNiceVariable));
}

int own_nice() {
  return ::getpriority(PRIO_PROCESS, 0);
  // On Linux, getpriority(PRIO_PROCESS, 0) returns the nice value of the calling thread.
}

}  // namespace

Result<PriorityRequest> progress_priority() {
  const char* text = std::getenv(kNiceVariable);
  if (text == nullptr) {
    if (own_nice() != 0) return PriorityRequest{};
    return PriorityRequest{.nice = kDefaultNice, .realtime = true};
  }
  const std::string_view value(text);
  int nice = 0;
  const auto [rest, error] = std::from_chars(value.begin(), value.end(), nice);
  if (error == std::errc{} && rest == value.end() && nice >= kFirstNice && nice <= kLastNice) {
    return PriorityRequest{.nice = nice, .demanded = true};
  }
  return failure(Code::invalid_argument, "{} is \"{}\": use a nice value from {} to {}",
                 kNiceVariable, text, kFirstNice, kLastNice);
}

Result<GrantedPriority> apply_priority(const PriorityRequest& precedence) {
  (void)::prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  const int inherited = own_nice();
  const int policy = ::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
  // A scheduling policy that the application has chosen is kept.
  if (policy != SCHED_OTHER) return GrantedPriority{.nice = inherited};
  const int wanted = precedence.nice.value_or(inherited);
  if (const int refused = ask_for(fair(wanted)); refused != 0) {
    if (precedence.demanded) {
      return system_failure(
          refused,
          "{} asks for a nice value of {}, which this process may not have: raise its limit "
          "(ulimit -e {}), give it CAP_SYS_NICE, or unset the variable",
          kNiceVariable, wanted, 20 - wanted);
    }
    (void)ask_for(fair(inherited));
  }
  GrantedPriority granted{.nice = own_nice()};
  granted.realtime = precedence.realtime && set_realtime(granted.nice, true);
  if (granted.realtime) announce_realtime();
  return granted;
}

bool set_realtime(int nice, bool realtime) {
  return ask_for(realtime ? round_robin() : fair(nice)) == 0;
}

}  // namespace tutti::runtime
