// Tests that no thread of the library runs the application's signal handlers.
#include "device/posix/blocked_signals.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

#include "communicator_ranks.hpp"

namespace tutti {
namespace {

/// The bits of the signals that a thread of this process blocks.
std::uint64_t blocked_by(const std::string& thread) {
  std::ifstream status("/proc/self/task/" + thread + "/status");
  for (std::string word; status >> word;) {
    if (word != "SigBlk:") continue;
    status >> word;
    return std::stoull(word, nullptr, 16);
  }
  return 0;
}

std::set<std::string> threads() {
  std::set<std::string> names;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/task"))
    names.insert(one.path().filename());
  return names;
}

bool blocks(std::uint64_t mask, int signal) { return (mask >> (signal - 1) & 1) != 0; }

TEST(BlockedSignals, SignalMask_afterAnException_isRestored) {
  const std::string me = std::to_string(gettid());
  const std::uint64_t before = blocked_by(me);
  try {
    const device::BlockedSignals blocked;
    EXPECT_TRUE(blocks(blocked_by(me), SIGTERM));
    EXPECT_FALSE(blocks(blocked_by(me), SIGSEGV));
    throw std::runtime_error("no thread can be started");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(blocked_by(me), before);
}

TEST(BlockedSignals, ThreadsOfACommunicator_blockSignals) {
  CommunicatorOptions options = test::patient();
  if (test::asked_for("", "TUTTI_DEVICE") == "ip") options.receive_workers = 1;
  std::set<std::string> others = threads();
  std::mutex mutex;
  std::latch created(2);
  std::latch checked(2);
  test::on_ranks(2, options, [&](Communicator&) {
    {
      const std::lock_guard lock(mutex);
      others.insert(std::to_string(gettid()));
    }
    created.arrive_and_wait();
    std::size_t seen = 0;
    for (const std::string& thread : threads()) {
      if (others.count(thread) != 0) continue;
      ++seen;
      EXPECT_TRUE(blocks(blocked_by(thread), SIGTERM)) << "thread " << thread;
    }
    EXPECT_GE(seen, 2u + 2u * options.receive_workers);
    checked.arrive_and_wait();
  });
}

}  // namespace
}  // namespace tutti
