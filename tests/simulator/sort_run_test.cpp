// Tests the radix sort in virtual time: its Allgathers run on the host or on the network interface.
// The tests check the cost of each way, and the time that a rank saves if it computes before it
// waits for an Allgather.
#include "studies/radix_sort/sort_run.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tutti::simulation {
namespace {

using sim::nanoseconds;
using sim::Picoseconds;

constexpr std::uint32_t kRadices[] = {2, 4, 6, 8, 10, 12, 14, 16};

/// A sort by 16 ranks on 4 hosts.
SortSpec small(std::uint32_t radix, ListRunner runner, bool overlapped) {
  SortSpec spec;
  spec.hosts = 4;
  spec.ranks_per_host = 4;
  spec.radix = radix;
  spec.keys = 5000;
  spec.runner = runner;
  spec.overlapped = overlapped;
  spec.work = {nanoseconds(1), nanoseconds(2), nanoseconds(5)};
  return spec;
}

SortReport sort(const SortSpec& spec) {
  const auto report = run_sort(spec);
  EXPECT_TRUE(report.ok()) << report.status().to_string();
  return report.ok() ? *report : SortReport();
}

Picoseconds phase(const SortReport& report, SortPhase which) {
  return report.phases[static_cast<std::size_t>(which)];
}

TEST(SortParts, KeysSentToEachRank_forUniformDigits_equalThoseOfAStableSort) {
  for (const std::uint32_t ranks : {2u, 5u, 16u}) {
    for (const std::uint64_t keys : {1ull, 7ull, 100ull}) {
      for (const std::uint32_t radix : {2u, 3u, 10u, 16u}) {
        std::vector<std::uint32_t>
            owners;  // rank that holds each key, indexed by position in the sorted order
        for (std::uint64_t digit = 0; digit < radix; ++digit) {
          for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            owners.insert(owners.end(), (digit + 1) * keys / radix - digit * keys / radix, rank);
          }
        }
        ASSERT_EQ(owners.size(), ranks * keys);
        for (std::uint32_t from = 0; from < ranks; ++from) {
          std::vector<std::uint64_t> expected(ranks), got(ranks);
          for (std::size_t place = 0; place < owners.size(); ++place) {
            if (owners[place] == from) ++expected[place / keys];
          }
          for (const SortPart& part : sort_parts(from, ranks, keys, radix)) {
            EXPECT_GT(part.keys, 0u);
            got[part.to] += part.keys;
          }
          EXPECT_EQ(got, expected) << ranks << " ranks, " << keys << " keys, radix " << radix;
        }
      }
    }
  }
}

TEST(SortRun, Tasks_areCountedForTheHostOrInterfaceThatRunsThem) {
  for (const bool overlapped : {false, true}) {
    const SortReport host = sort(small(10, ListRunner::host, overlapped));
    EXPECT_EQ(host.passes, 10u);  // ten decimal digits, because 10^9 < 2^32 < 10^10
    EXPECT_EQ(host.lists.host_messages, 10u * 16 * 4);
    EXPECT_EQ(host.lists.nic_messages, 0u);
    EXPECT_EQ(host.lists.nic_waits, 0u);

    SortSpec spec = small(10, ListRunner::nic, overlapped);
    SortReport nic = sort(spec);
    EXPECT_EQ(nic.lists.host_messages, 0u);
    EXPECT_EQ(nic.lists.nic_messages, 10u * 16 * 4);
    // Each of the four messages takes three tasks of the management queue: an enable, a wait for
    // the send and a wait for the arrival. The copy takes one wait.
    EXPECT_EQ(nic.lists.nic_waits, 10u * 16 * (4 + 4 + 4 + 1));
    spec.buffer_per_block = true;
    nic = sort(spec);
    EXPECT_EQ(nic.lists.nic_messages, 10u * 16 * 15);
  }
  SortSpec leaders = small(10, ListRunner::nic, true);
  leaders.hierarchical = true;
  EXPECT_EQ(sort(leaders).lists.nic_messages, 10u * 4 * 2);
}

TEST(SortRun, KeysThatBelongToAnotherRank_areAllMoved) {
  for (const std::uint32_t radix : kRadices) {
    std::uint64_t moved = 0, messages = 0;
    for (std::uint32_t from = 0; from < 16; ++from) {
      for (const SortPart& part : sort_parts(from, 16, 5000, radix)) {
        moved += part.to == from ? 0 : part.keys;
        messages += part.to == from ? 0 : 1;
      }
    }
    const SortReport report = sort(small(radix, ListRunner::host, false));
    EXPECT_EQ(report.keys_moved, moved * report.passes);
    EXPECT_EQ(report.key_messages, messages * report.passes);
  }
}

// The network interface works while the host computes. A rank that computes before it waits
// therefore never loses time, and saves at most the time of its own work in each pass.
TEST(SortRun, AllgatherByTheNetworkInterface_overlappedWithWork_shortensTheSort) {
  for (const bool hierarchical : {false, true}) {
    for (const std::uint32_t radix : kRadices) {
      SortSpec spec = small(radix, ListRunner::nic, false);
      spec.hierarchical = hierarchical;
      const SortReport blocking = sort(spec);
      spec.overlapped = true;
      const SortReport overlapped = sort(spec);
      EXPECT_LT(overlapped.time, blocking.time) << "radix " << radix;
      EXPECT_LT(phase(overlapped, SortPhase::allgather), phase(blocking, SortPhase::allgather));
      EXPECT_EQ(phase(overlapped, SortPhase::local), phase(blocking, SortPhase::local));
      const Picoseconds work = (spec.work.local + spec.work.count) * (5000 * blocking.passes);
      EXPECT_GE(overlapped.time + work, blocking.time) << "radix " << radix;
    }
  }
}

TEST(SortRun, SortWhoseAllgatherOverlapsNoWork_takesTheTimeOfABlockingSort) {
  for (const ListRunner runner : {ListRunner::host, ListRunner::nic}) {
    for (const bool hierarchical : {false, true}) {
      SortSpec spec = small(8, runner, false);
      spec.hierarchical = hierarchical;
      spec.work.local = {};
      const SortReport blocking = sort(spec);
      spec.overlapped = true;
      EXPECT_EQ(sort(spec).time, blocking.time);
    }
  }
}

TEST(SortRun, OverlappedAllgather_costsOnlyTheCallAndOnePoll) {
  SortSpec spec = small(16, ListRunner::nic, true);
  spec.work.local = nanoseconds(1000);
  const SortReport report = sort(spec);
  // A call posts four sends, four receives, a copy and a wait for the copy. For each of the four
  // rounds it also posts an enable, a wait for the send and a wait for the receive.
  const auto per_pass = phase(report, SortPhase::allgather) / report.passes;
  const Picoseconds posted = nanoseconds(50 * (2 * 4 + 1 + 3 * 4 + 1));
  const sim::WireSpeed copy(spec.costs.copy_bits_per_second);
  const Picoseconds look = nanoseconds(500 + 150) + copy.time_of(16 * 64);
  EXPECT_EQ(per_pass, posted + copy.time_of(64) + look);
}

TEST(SortRun, HostThatPollsMoreOften_spendsLessTimeInTheAllgather) {
  SortSpec spec = small(4, ListRunner::host, true);
  spec.slice_keys = spec.keys;
  const SortReport once = sort(spec);
  spec.slice_keys = 500;
  const SortReport often = sort(spec);
  EXPECT_GT(often.lists.looks, once.lists.looks);
  EXPECT_LT(phase(often, SortPhase::allgather), phase(once, SortPhase::allgather));
}

/// With two ranks an Allgather has one round, so that the time of every step can be computed by
/// hand.
TEST(SortRun, AllgatherOfTwoRanks_takesTheSumOfItsSteps) {
  SortSpec spec = small(16, ListRunner::host, false);
  spec.hosts = 2;
  spec.ranks_per_host = 1;
  spec.keys = 1;  // the only key never moves, so no rank begins an Allgather late
  const sim::WireSpeed wire(spec.bits_per_second);
  const sim::WireSpeed copy(spec.costs.copy_bits_per_second);
  // The path has two links with a store-and-forward switch between them.
  const Picoseconds flight = 2 * wire.time_of(64 + 26) + nanoseconds(50 + 200 + 50);
  const Picoseconds host = phase(sort(spec), SortPhase::allgather) / 8;
  // The host copies its block and sends a message. After the flight of the peer's message, the host
  // notices the arrival, polls and receives.
  EXPECT_EQ(host, copy.time_of(64) + nanoseconds(150) + flight + nanoseconds(600 + 500 + 150));

  spec.runner = ListRunner::nic;
  const Picoseconds nic = phase(sort(spec), SortPhase::allgather) / 8;
  // The list of the network interface has seven tasks: a send, a receive, a copy, an enable, and
  // one wait each for the send, the copy and the receive.
  const Picoseconds posted = copy.time_of(64) + nanoseconds(50 * 7);
  const Picoseconds sent = nanoseconds(300 * 2);  // the interface handles the enable and the send
  const Picoseconds waits = wire.time_of(64 + 26) + nanoseconds(300 * 2);
  ASSERT_GT(waits, flight)
      << "the message must arrive while the interface handles its first two waits";
  EXPECT_EQ(nic, posted + sent + waits + nanoseconds(300) + nanoseconds(600 + 500 + 150) +
                     copy.time_of(2 * 64));
}

TEST(SortRun, SameSettings_giveTheSameRun) {
  for (const ListRunner runner : {ListRunner::host, ListRunner::nic}) {
    const SortReport first = sort(small(6, runner, true));
    const SortReport second = sort(small(6, runner, true));
    EXPECT_EQ(first.digest, second.digest);
    EXPECT_EQ(first.time, second.time);
  }
  EXPECT_NE(sort(small(6, ListRunner::nic, true)).digest,
            sort(small(6, ListRunner::host, true)).digest);
}

TEST(SortRun, Sort_withEachAllgatherAlgorithm_completes) {
  for (const char* algorithm : {"ring", "bruck", "recursive_doubling", "linear"}) {
    for (const ListRunner runner : {ListRunner::host, ListRunner::nic}) {
      for (const bool overlapped : {false, true}) {
        SortSpec spec = small(4, runner, overlapped);
        // Bruck's algorithm ends with a rotation, a copy that the interface leaves to the host. The
        // task list of the interface pauses until the host has made that copy.
        spec.hosts = 3;
        spec.algorithm = algorithm;
        EXPECT_GT(sort(spec).time, Picoseconds{}) << algorithm;
      }
    }
  }
}

TEST(SortRun, ImpossibleSortsAreRefused) {
  const auto refusal = [](const SortSpec& spec) {
    const auto report = run_sort(spec);
    return report.ok() ? std::string("accepted") : report.status().to_string();
  };
  SortSpec spec = small(2, ListRunner::nic, true);
  spec.hosts = 3;
  EXPECT_NE(refusal(spec).find("power"), std::string::npos) << refusal(spec);
  spec = small(1, ListRunner::nic, true);
  EXPECT_NE(refusal(spec).find("a radix of 2 to 65536"), std::string::npos) << refusal(spec);
  spec = small(65536, ListRunner::nic, true);
  EXPECT_NE(refusal(spec).find("only lists of eager messages"), std::string::npos) << refusal(spec);
  spec.runner = ListRunner::host;
  EXPECT_EQ(refusal(spec), "accepted");
  spec.hosts = spec.ranks_per_host = 1;
  EXPECT_NE(refusal(spec).find("2 to 16384 ranks"), std::string::npos) << refusal(spec);
  spec = small(2, ListRunner::host, true);
  spec.key_bits = 65;
  EXPECT_NE(refusal(spec).find("65 bits"), std::string::npos) << refusal(spec);
  spec = small(2, ListRunner::host, true);
  spec.algorithm = "teleport";
  EXPECT_NE(refusal(spec).find("standard_exchange"), std::string::npos) << refusal(spec);
}

}  // namespace
}  // namespace tutti::simulation
