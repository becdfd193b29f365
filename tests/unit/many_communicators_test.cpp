// Tests that a process which creates and destroys many communicators keeps no descriptor, no
// thread, no group membership and no memory of them. TUTTI_TEST_COMMUNICATORS sets the number of
// communicators, such as 1000.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "communicator_ranks.hpp"
#include "count_wanted.hpp"
#include "sanitized.hpp"

namespace tutti {
namespace {

using namespace test;

/// Number of communicators that are created before resources are first counted, so that all caches
/// are full by then.
constexpr int kWarm = kSanitized ? 20 : 100;
/// Largest permitted growth of the resident memory for each communicator, in KiB. A thread, socket
/// or buffer that a communicator leaves behind takes more, so the test detects it.
constexpr double kMaxGrowthKib = 1;

/// Other processes of this network namespace may add at most this many group memberships during the
/// test; two tests with receive workers add 90. A leak of 100 communicators adds more, because each
/// communicator has at least one membership.
constexpr long kMaxForeignGroups = 99;

int wanted_count() {
  return static_cast<int>(test::count_wanted("TUTTI_TEST_COMMUNICATORS", kSanitized ? 100 : 400));
}

/// The number of entries of a folder of /proc/self.
long entries(const std::string& folder) {
  const std::filesystem::directory_iterator all("/proc/self/" + folder);
  return std::distance(begin(all), end(all));
}

/// The number of lines of a file of /proc.
long lines(const std::string& path) {
  std::ifstream file(path);
  return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
}

struct Census {
  long descriptors = entries("fd");
  long threads = entries("task");
  /// Multicast group memberships of all processes in this network namespace.
  long groups = lines("/proc/self/net/igmp");
  long maps = lines("/proc/self/maps");
  double resident_kib = 0;

  Census() {
    ::malloc_trim(0);
    std::ifstream file("/proc/self/statm");
    long pages = 0;
    file >> pages >> pages;
    resident_kib = static_cast<double>(pages * ::sysconf(_SC_PAGESIZE)) / 1024;
  }
};

/// Waits, for a limited time, until the numbers of threads and descriptors in /proc are at most
/// those of `expected`, and returns the last count. A joined thread may still be listed for a
/// moment.
Census settled(const Census& expected) {
  Census now;
  for (int trial = 0; trial < 100; ++trial) {
    if (now.threads <= expected.threads && now.descriptors <= expected.descriptors) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    now = Census();
  }
  return now;
}

/// Expects that calls of `once` leave nothing behind; each call creates and destroys `each`
/// communicators.
void expect_nothing_kept(int each, const std::function<void()>& once) {
  // Limits malloc to one arena. With an arena per thread, the order of the threads would decide how
  // much memory stays resident.
  ::mallopt(M_ARENA_MAX, 1);
  for (int i = 0; i < kWarm; i += each) once();
  const Census before;
  const int count = wanted_count();
  for (int i = 0; i < count; i += each) once();
  const Census after = settled(before);
  EXPECT_LE(after.descriptors, before.descriptors);
  EXPECT_LE(after.threads, before.threads);
  EXPECT_LE(after.groups, before.groups + kMaxForeignGroups);
  EXPECT_LE(after.maps, before.maps + 16);
  if (!kSanitized) {  // a sanitizer keeps freed memory resident, which is no leak
    EXPECT_LE(after.resident_kib - before.resident_kib, kMaxGrowthKib * count);
  }
  std::printf(
      "[ figures  ] %d communicators: %ld descriptors, %ld threads, %ld memberships, "
      "%.0f KiB of memory more than before\n",
      count, after.descriptors - before.descriptors, after.threads - before.threads,
      after.groups - before.groups, after.resident_kib - before.resident_kib);
}

void use(Communicator& communicator) {
  const Bytes own = pattern(3000, index(communicator.rank()));
  Bytes all(own.size() * communicator.size());
  finish(communicator.allgather(own, all));
  for (std::uint32_t rank = 0; rank < communicator.size(); ++rank) {
    const Bytes expected = pattern(own.size(), rank);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                           all.begin() + static_cast<std::ptrdiff_t>(rank * own.size())));
  }
}

CommunicatorOptions on(const char* device) {
  CommunicatorOptions options = patient();
  options.device_name = device;
  options.hierarchy = "flat";
  return options;
}

class ManyCommunicators : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Devices, ManyCommunicators, testing::Values("ip", "host"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(ManyCommunicators, IndependentCommunicators_createdAndDestroyed_leakNoResources) {
  expect_nothing_kept(2, [] { on_ranks(2, on(GetParam()), use); });
}

TEST_P(ManyCommunicators, CommunicatorsOfUniqueIds_createdAndDestroyed_leakNoResources) {
  expect_nothing_kept(2, [] {
    const auto id = UniqueId::create("127.0.0.1");
    ASSERT_TRUE(id.ok()) << id.status().to_string();
    const auto join = [&id](std::uint32_t rank) {
      auto communicator = Communicator::create(*id, rank_of(rank), 2, on(GetParam()));
      ASSERT_TRUE(communicator.ok()) << communicator.status().to_string();
      use(*communicator);
    };
    std::thread other(join, 1);
    join(0);
    other.join();
  });
}

TEST_P(ManyCommunicators, Duplicates_createdAndDestroyed_leakNoResources) {
  const CommunicatorOptions options = on(GetParam());
  constexpr int kAtOnce = 10;
  on_ranks(2, options, [&](Communicator& original) {
    const auto once = [&] {
      for (int i = 0; i < kAtOnce / 2; ++i) {
        auto duplicate = original.duplicate(options);
        ASSERT_TRUE(duplicate.ok()) << duplicate.status().to_string();
        use(*duplicate);
      }
    };
    // Rank 1 runs the same rounds but does not count resources. Both ranks meet after each round.
    const auto round = [&] {
      once();
      finish(original.barrier());
    };
    if (original.rank() == Rank{0}) {
      expect_nothing_kept(kAtOnce, round);
    } else {
      for (int i = 0; i < kWarm; i += kAtOnce) round();
      for (int i = 0; i < wanted_count(); i += kAtOnce) round();
    }
    // Rank 1 keeps the original communicator until rank 0 has counted resources for the last time.
    finish(original.barrier());
  });
}

}  // namespace
}  // namespace tutti
