#include "hang_report.hpp"

#include <dirent.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <link.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxFrames = 64;
/// The signal that makes a thread store its stack. It is one of the fault signals, because the
/// library's threads block all other signals.
constexpr int kSignal = SIGSYS;
constexpr auto kThreadPatience = std::chrono::milliseconds(500);

std::atomic<Clock::rep> last_sign{0};

/// The stack of one thread, stored by that thread in its signal handler. Only one thread at a time
/// is interrupted.
struct Stack {
  std::array<void*, kMaxFrames> frames;
  int depth = 0;
  std::atomic<bool> taken{false};
};
Stack stack;

void take_stack(int) {
  stack.depth = backtrace(stack.frames.data(), kMaxFrames);
  stack.taken.store(true, std::memory_order_release);
}

std::vector<pid_t> threads() {
  std::vector<pid_t> all;
  DIR* folder = opendir("/proc/self/task");
  if (folder == nullptr) return all;
  while (const dirent* entry = readdir(folder)) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread > 0) all.push_back(thread);
  }
  closedir(folder);
  return all;
}

/// The address at which this program is loaded. addr2line expects addresses relative to the file.
std::uintptr_t load_address() {
  std::uintptr_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        *static_cast<std::uintptr_t*>(to) = info->dlpi_addr;
        return 1;  // stops at the first loaded object, which is the program
      },
      &address);
  return address;
}

void print_stack(pid_t thread) {
  stack.taken.store(false);
  if (syscall(SYS_tgkill, getpid(), thread, kSignal) != 0) return;  // the thread has ended
  const auto give_up = Clock::now() + kThreadPatience;
  while (!stack.taken.load(std::memory_order_acquire) && Clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  fmt::print(stderr, "---- thread {}\n", thread);
  if (!stack.taken.load(std::memory_order_acquire)) {
    fmt::print(stderr, "cannot be interrupted\n");
    return;
  }
  // A stack frame holds the return address, which may belong to the line after the call. The
  // address one byte before it belongs to the call.
  std::string command = fmt::format("addr2line -Cfpi -e /proc/{}/exe", getpid());
  const std::uintptr_t base = load_address();
  for (int i = 0; i < stack.depth; ++i) {
    command += fmt::format(" {:#x}", reinterpret_cast<std::uintptr_t>(stack.frames[i]) - base - 1);
  }
  command += " 1>&2";
  if (std::system(command.c_str()) != 0) backtrace_symbols_fd(stack.frames.data(), stack.depth, 2);
}

void print_all_stacks(std::chrono::seconds patience) {
  fmt::print(stderr, "\n==== no test has begun or ended for {} s; the stacks of all threads:\n",
             patience.count());
  const pid_t me = static_cast<pid_t>(syscall(SYS_gettid));
  for (const pid_t thread : threads()) {
    if (thread != me) print_stack(thread);
  }
  std::fflush(stderr);
}

void watch(std::chrono::seconds patience) {
  Clock::rep reported = -1;
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    const Clock::rep sign = last_sign.load();
    const Clock::time_point due = Clock::time_point(Clock::duration(sign)) + patience;
    if (sign == reported || Clock::now() < due) continue;
    print_all_stacks(patience);
    reported = sign;
  }
}

}  // namespace

void report_later() { last_sign.store(Clock::now().time_since_epoch().count()); }

void report_hang_after(std::chrono::seconds patience) {
  // The first call of backtrace() loads a library, which a signal handler must not do.
  void* frame = nullptr;
  (void)backtrace(&frame, 1);
  struct sigaction action {};
  action.sa_handler = take_stack;
  action.sa_flags = SA_RESTART;
  sigaction(kSignal, &action, nullptr);
  report_later();
  std::thread([patience] { watch(patience); }).detach();
}

}  // namespace tutti::test
