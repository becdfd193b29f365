// Two ranks, each alone on its host, report how their background threads are scheduled. Each rank
// prints one line, such as "rank 0: precedence 100, callback of another thread at policy 0". On an
// error the program prints the error and exits with status 3.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tutti/communicator.hpp"

namespace {

constexpr int kFailed = 3;
// Block size in bytes. With blocks of this size, a collective has usually not ended when its
// callback is set.
constexpr std::size_t kBlockBytes = 1024 * 1024;
constexpr int kMaxCalls = 1000;

int fail(const tutti::Status& status) {
  std::puts(status.to_string().c_str());
  return kFailed;
}

std::uint64_t counter_of(const tutti::Communicator& communicator, std::string_view name) {
  const auto counters = communicator.counters();
  const auto one = std::find_if(counters.begin(), counters.end(),
                                [&](const auto& entry) { return entry.first == name; });
  return one == counters.end() ? 0 : one->second;
}

/// Runs a collective that another thread completes; `policy` receives the scheduling policy of that
/// thread.
tutti::Status call(tutti::Communicator& communicator, std::atomic<int>& policy) {
  std::vector<std::byte> own(kBlockBytes);
  std::vector<std::byte> all(kBlockBytes * communicator.size());
  auto request = communicator.allgather(own, all);
  if (!request) return request.status();
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> called_back{false};
  const auto note = [&](const tutti::Status&) {
    if (std::this_thread::get_id() != caller)
      policy = ::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    called_back = true;
  };
  if (auto status = communicator.on_completion(*request, note); !status) return status;
  while (!called_back) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return request->wait();
}

/// True if `mine` is true at every rank. Every rank must call this together with the others.
tutti::Result<bool> everywhere(tutti::Communicator& communicator, bool mine) {
  const std::byte own{mine};
  std::vector<std::byte> all(communicator.size());
  auto request = communicator.allgather({&own, 1}, all);
  if (!request) return request.status();
  if (auto status = request->wait(); !status) return status;
  return std::count(all.begin(), all.end(), std::byte{1}) == std::ssize(all);
}

}  // namespace

int main() {
  auto communicator = tutti::Communicator::create();
  if (!communicator) return fail(communicator.status());
  std::atomic<int> policy{-1};
  // If a collective ends before its callback is set, the callback runs in the calling thread. The
  // loop therefore repeats the call until another thread has run the callback at every rank.
  bool seen = false;
  for (int number = 0; number < kMaxCalls && !seen; ++number) {
    if (auto status = call(*communicator, policy); !status) return fail(status);
    const auto all = everywhere(*communicator, policy.load() >= 0);
    if (!all) return fail(all.status());
    seen = *all;
  }
  fmt::print("rank {}: precedence {}, callback of another thread at policy {}\n",
             index(communicator->rank()), counter_of(*communicator, "background_priority"),
             policy.load());
  return 0;
}
