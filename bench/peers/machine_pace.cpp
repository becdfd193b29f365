// Prints how fast this machine is at the moment, as one JSON object: the times of a system call and
// of a memory copy on the slowest core, while all cores work. A virtual machine may share cores and
// memory with others, so its speed varies over minutes.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "measure.hpp"

namespace {

using tutti::bench::now_ns;

constexpr int kRounds = 5;
constexpr int kCalls = 20'000;
constexpr std::size_t kCopyBytes = 16 << 20;  // size of the copy in bytes, larger than the caches

struct Core {
  int number = 0;
  double call_ns = 0;
  double copy_ns_per_kib = 0;
};

std::vector<Core> usable_cores() {
  cpu_set_t set;
  std::vector<Core> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) cores.push_back({.number = i});
  }
  return cores;
}

/// The median time of `work` over several rounds, so that one interrupted round has no effect.
template <typename Work>
double median_ns(std::barrier<>& together, Work&& work) {
  double times[kRounds];
  for (double& time : times) {
    together.arrive_and_wait();
    const std::int64_t begin = now_ns();
    work();
    time = static_cast<double>(now_ns() - begin);
  }
  std::nth_element(times, times + kRounds / 2, times + kRounds);
  return times[kRounds / 2];
}

void measure(Core& core, std::barrier<>& together) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core.number, &only);
  (void)pthread_setaffinity_np(pthread_self(), sizeof only, &only);
  const auto source = std::make_unique<std::byte[]>(kCopyBytes);
  const auto target = std::make_unique<std::byte[]>(kCopyBytes);
  std::memset(source.get(), 1, kCopyBytes);
  std::memset(target.get(), 2, kCopyBytes);
  core.call_ns = median_ns(together,
                           [] {
                             for (int i = 0; i < kCalls; ++i) (void)getppid();
                           }) /
                 kCalls;
  core.copy_ns_per_kib =
      median_ns(together, [&] { std::memcpy(target.get(), source.get(), kCopyBytes); }) /
      static_cast<double>(kCopyBytes >> 10);
}

}  // namespace

int main() {
  std::vector<Core> cores = usable_cores();
  if (cores.empty()) {
    std::perror("machine_pace: sched_getaffinity");
    return 1;
  }
  std::barrier<> together(static_cast<std::ptrdiff_t>(cores.size()));
  std::vector<std::thread> threads;
  for (Core& core : cores) threads.emplace_back([&] { measure(core, together); });
  for (std::thread& one : threads) one.join();
  const auto slowest = [&](double Core::*figure) {
    return (*std::max_element(
               cores.begin(), cores.end(),
               [&](const Core& a, const Core& b) { return a.*figure < b.*figure; })).*
           figure;
  };
  std::printf("{\"system_call_ns\": %.1f, \"copy_ns_per_kib\": %.1f}\n", slowest(&Core::call_ns),
              slowest(&Core::copy_ns_per_kib));
  return 0;
}
