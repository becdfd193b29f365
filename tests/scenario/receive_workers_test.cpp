// Tests recovery with receive workers on a network with faults. Counters prove that the workers
// received the chunks, and sanitizers report any race of a worker with another thread.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "job.hpp"
#include "sanitized.hpp"
#include "wrapped_device.hpp"

namespace tutti::scenario {
namespace {

constexpr std::uint32_t kChunk = 1024;

struct Shape {
  std::uint32_t workers;
  std::uint32_t subgroups;
};

std::uint64_t received_by_all(std::uint32_t size, std::size_t block_bytes) {
  return std::uint64_t{size} * (size - 1) * ((block_bytes + kChunk - 1) / kChunk);
}

class Workers : public testing::TestWithParam<Shape> {
 protected:
  static JobSpec job(std::uint32_t size, const std::string& faults) {
    JobSpec spec{.size = size, .faults = faults, .options = small_chunks()};
    spec.options.receive_workers = GetParam().workers;
    spec.options.subgroups = GetParam().subgroups;
    return spec;
  }

  /// Runs a barrier and then `body`. The receive workers start when the barrier ends, and until
  /// then the owner receives the chunks.
  static Outcome run(const JobSpec& spec, const std::function<void(Member&)>& body) {
    return run_job(spec, [&](Member& member) {
      auto request = member.communicator().barrier({.will_wait = true});
      ASSERT_TRUE(request.ok()) << request.status().to_string();
      const Status status = request->wait();
      ASSERT_TRUE(status.ok()) << status.to_string();
      body(member);
    });
  }

  static Outcome allgathers(const JobSpec& spec, std::size_t block_bytes, std::uint32_t count) {
    return run(spec, [&](Member& member) {
      for (std::uint32_t i = 0; i < count; ++i) {
        if (!member.allgather(block_bytes, i)) return;
      }
    });
  }

  /// Expects that a worker received each chunk, or the fetch ring fetched it, and that each chunk
  /// was counted once.
  static void expect_received(const Outcome& outcome, std::uint64_t chunks) {
    EXPECT_EQ(outcome.of("chunks_received") + outcome.of("chunks_fetched"), chunks)
        << outcome.describe();
    EXPECT_EQ(outcome.of("chunks_received_by_workers"), outcome.of("chunks_received"));
    for (const Counters& rank : outcome.by_rank) {
      EXPECT_GT(rank.at("chunks_received_by_workers"), 0u);
    }
    EXPECT_EQ(outcome.of("collectives_failed"), 0u);
    EXPECT_EQ(outcome.of("messages_rejected"), 0u) << outcome.describe();
    EXPECT_EQ(outcome.of("chunks_malformed"), 0u);
    EXPECT_EQ(outcome.of("device_kernel_drops"), 0u)
        << "the kernel dropped datagrams on this machine";
  }
  static void expect_thrifty(const Outcome& outcome) {
    EXPECT_LE(2 * outcome.recovered_bytes(), 3 * outcome.lost_bytes()) << outcome.describe();
  }
};

INSTANTIATE_TEST_SUITE_P(Scenario, Workers,
                         testing::Values(Shape{1, 1}, Shape{1, 2}, Shape{2, 2}, Shape{2, 3},
                                         Shape{2, 4}),
                         [](const auto& one) {
                           return fmt::format("W{}S{}", one.param.workers, one.param.subgroups);
                         });

TEST_P(Workers, JobWithoutLoss_causesNoRecovery) {
  const std::size_t block = 300 * kChunk + 17;
  const Outcome outcome = allgathers(job(3, ""), block, 10);
  expect_received(outcome, 10 * received_by_all(3, block));
  // A sender that the machine pauses longer than the cutoff makes receivers fetch late chunks. The
  // checks therefore hold only without such a pause.
  if (outcome.of("cutoff_silence") == 0) {
    EXPECT_EQ(outcome.of("bytes_fetched"), 0u) << outcome.describe();
    EXPECT_EQ(outcome.of("chunks_retransmitted"), outcome.of("tail_probes"));
  }
}

TEST_P(Workers, LossInBroadcastsOfRetainedBlocks_isRecovered) {
  constexpr std::uint32_t kCount = 24;
  JobSpec spec = job(4, "drop receiver chunk rate=3%; drop sender chunk rate=2%");
  spec.options.retain_bytes = 20 * kChunk;
  const Outcome outcome = run(spec, [](Member& member) {
    for (std::uint32_t i = 0; i < kCount; ++i) {
      if (!member.broadcast(20 * kChunk, i % 4, i)) return;
    }
  });
  expect_received(outcome, kCount * 3 * 20);
  EXPECT_EQ(outcome.of("blocks_retained"), kCount);
  EXPECT_GT(outcome.of("retained_ranges_served"), 0u);
}

TEST_P(Workers, LostChunksAreRecovered) {
  for (const char* faults : {"seed=11; drop receiver chunk rate=3%; drop sender chunk rate=1%",
                             "seed=12; drop receiver chunk rate=10%"}) {
    const std::size_t block = 300 * kChunk;
    const Outcome outcome = allgathers(job(4, faults), block, 3);
    SCOPED_TRACE(faults);
    expect_received(outcome, 3 * received_by_all(4, block));
    expect_thrifty(outcome);
    EXPECT_GT(outcome.of("chunks_fetched"), 0u);
  }
}

TEST_P(Workers, LossWhileSendersNeedCredits_isRecovered) {
  JobSpec spec = job(4, "drop receiver chunk rate=2%; drop sender chunk rate=1%");
  spec.options.window_bytes = 16 * kChunk;  // a sender fills this credit window in a single poll
  const std::size_t block = 300 * kChunk;
  const Outcome outcome = allgathers(spec, block, 2);
  expect_received(outcome, 2 * received_by_all(4, block));
  expect_thrifty(outcome);
  EXPECT_GT(outcome.of("credit_stalls"), 0u);
}

TEST_P(Workers, LossInBroadcastsFromEveryRoot_isRecovered) {
  const JobSpec spec = job(4, "drop receiver chunk rate=5%; drop sender chunk rate=2%");
  const Outcome outcome = run(spec, [&](Member& member) {
    for (std::uint32_t root = 0; root < 4; ++root) {
      if (!member.broadcast(200 * kChunk, root, root)) return;
    }
  });
  expect_received(outcome, 4 * 3 * 200);
  expect_thrifty(outcome);
}

TEST_P(Workers, LossOfTheLastChunkOfEveryBlock_isRecovered) {
  // No later chunk reveals the loss. A rank finds the loss when its cutoff fires or a neighbour
  // ends the collective.
  const JobSpec spec = job(3,
                           "drop receiver chunk psn=19 occurrences=1; drop receiver chunk "
                           "psn=39 occurrences=1; drop receiver chunk psn=59 occurrences=1");
  const Outcome outcome = allgathers(spec, 20 * kChunk, 10);
  expect_received(outcome, 10 * received_by_all(3, 20 * kChunk));
  EXPECT_EQ(outcome.injected.chunks_dropped_at_receiver, 10u * 6);
}

TEST_P(Workers, DuplicatedChunks_areCountedAsDuplicateOrStale) {
  const JobSpec spec = job(3, "duplicate receiver chunk rate=20%; duplicate sender chunk rate=10%");
  const Outcome outcome = allgathers(spec, 100 * kChunk, 10);
  expect_received(outcome, 10 * received_by_all(3, 100 * kChunk));
  // A sender that the machine pauses longer than the cutoff makes receivers fetch late chunks. The
  // check therefore holds only without such a pause.
  if (outcome.of("cutoff_silence") == 0) {
    EXPECT_EQ(outcome.of("bytes_fetched"), 0u) << outcome.describe();
  }
  EXPECT_GT(outcome.injected.chunks_duplicated, 0u);
  EXPECT_GT(outcome.of("chunks_duplicate") + outcome.of("chunks_stale"), 0u);
}

TEST_P(Workers, ReorderedChunksArePlaced) {
  const Outcome outcome =
      allgathers(job(3, "reorder receiver chunk rate=20% distance=5 by=300us"), 100 * kChunk, 3);
  expect_received(outcome, 3 * received_by_all(3, 100 * kChunk));
  EXPECT_GT(outcome.injected.chunks_reordered, 0u);
  EXPECT_GT(outcome.of("chunks_out_of_order"), 0u);
}

TEST_P(Workers, DamagedChunks_areReplaced) {
  for (const bool authenticate : {false, true}) {
    JobSpec spec = job(3, "corrupt receiver chunk rate=5%");
    spec.options.authenticate = authenticate;
    const Outcome outcome = allgathers(spec, 200 * kChunk, 3);
    expect_received(outcome, 3 * received_by_all(3, 200 * kChunk));
    expect_thrifty(outcome);
    EXPECT_GT(outcome.injected.chunks_corrupted, 0u);
    EXPECT_EQ(outcome.of("chunks_damaged"), outcome.of("device_rejected_integrity"));
  }
}

TEST_P(Workers, ChunksThatArriveWhileAReadFetchesThem_areCountedOnce) {
  // Many chunks are only late, so they arrive by multicast while a READ already fetches them. Some
  // of these late chunks are damaged.
  const JobSpec spec = job(3,
                           "seed=7; delay receiver chunk rate=15% by=4ms; corrupt receiver "
                           "chunk rate=5%; duplicate receiver chunk rate=10% by=5ms");
  const Outcome outcome = allgathers(spec, 200 * kChunk, 6);
  expect_received(outcome, 6 * received_by_all(3, 200 * kChunk));
  EXPECT_GT(outcome.injected.chunks_delayed, 0u);
  EXPECT_GT(outcome.of("chunks_fetched"), 0u);
}

TEST_P(Workers, BackToBackCollectives_withEveryKindOfFault_complete) {
  constexpr std::uint32_t kCollectives = test::kSanitized ? 600 : 2000;
  JobSpec spec = job(3, kEveryFault);
  spec.options.chains = 0;
  spec.first_epoch = 0xffff'ff00u;
  const Outcome outcome =
      run(spec, [](Member& member) { run_small_collectives(member, kCollectives); });
  EXPECT_EQ(outcome.of("collectives_completed"), 3u * (kCollectives + 2)) << outcome.describe();
  EXPECT_EQ(outcome.of("messages_rejected"), 0u);
  EXPECT_GT(outcome.of("chunks_received_by_workers"), 0u);
  EXPECT_GT(outcome.of("chunks_unexpected"), 0u)
      << "the test needs a rank that is a collective ahead";
  EXPECT_EQ(outcome.of("chunks_unexpected_dropped"), 0u);
  expect_every_fault(outcome);
}

TEST_P(Workers, CallWithMismatchedSizes_fails_andTheErrorNamesTheSender) {
  run(job(2, ""), [](Member& member) {
    // The buffer of rank 1 is one byte longer than that of rank 0, so the last chunk of rank 0 is
    // shorter than the chunk that rank 1 expects.
    Bytes buffer(20 * kChunk + 10 + member.rank());
    auto request = member.communicator().broadcast(buffer, Rank{0}, {Algorithm::multicast, true});
    ASSERT_TRUE(request.ok()) << request.status().to_string();
    const Status status = request->wait();
    ASSERT_FALSE(status.ok());
    if (member.rank() == 0) return;
    EXPECT_EQ(status.code(), Code::invalid_argument) << status.to_string();
    const std::size_t sender = status.message().find(": rank 0 ");
    ASSERT_NE(sender, std::string::npos) << status.to_string();
    EXPECT_NE(status.message().find("sent 10 bytes by multicast that do not fit", sender),
              std::string::npos)
        << status.to_string();
  });
}

/// A function of the test. The next poll of any queue pair with this trap calls it once.
using Trap = std::function<void()>;

class TrappedPair final : public device::MulticastQueuePair {
 public:
  TrappedPair(device::MulticastQueuePair& inner, std::atomic<const Trap*>& trap)
      : inner_(&inner), trap_(&trap) {}

  Result<std::uint32_t> post(const device::ChunkRun& run) override { return inner_->post(run); }
  std::uint64_t unsent_bytes() override { return inner_->unsent_bytes(); }
  bool reads_posted() override { return inner_->reads_posted(); }
  std::size_t poll(std::span<device::ReceivedChunk> chunks) override {
    if (const Trap* const trap = trap_->exchange(nullptr)) (*trap)();
    return inner_->poll(chunks);
  }
  bool copy_and_verify(const device::ReceivedChunk& chunk, std::byte* destination) override {
    return inner_->copy_and_verify(chunk, destination);
  }
  void release() override { inner_->release(); }
  bool set_resolver(device::PlacementResolver* resolver) override {
    return inner_->set_resolver(resolver);
  }
  Instant next_arrival(Instant now) override { return inner_->next_arrival(now); }
  int receive_descriptor() const override { return inner_->receive_descriptor(); }
  Status post_probe(std::uint32_t attempt, std::uint32_t bytes) override {
    return inner_->post_probe(attempt, bytes);
  }

 private:
  device::MulticastQueuePair* inner_;
  std::atomic<const Trap*>* trap_;
};

/// An endpoint whose queue pairs share a trap, a function of the test. The queue pair that is
/// polled next calls the trap once.
class TrappedEndpoint final : public device::ForwardingEndpoint {
 public:
  TrappedEndpoint(std::unique_ptr<device::Endpoint> inner, std::atomic<const Trap*>& trap)
      : ForwardingEndpoint(std::move(inner)), trap_(&trap) {}

  Status connect(std::span<const std::vector<std::byte>> addresses) override {
    if (Status status = ForwardingEndpoint::connect(addresses); !status) return status;
    for (std::uint32_t s = 0; s < subgroup_count(); ++s) {
      pairs_.emplace_back(inner().multicast(s), *trap_);
    }
    return {};
  }
  device::MulticastQueuePair& multicast(std::uint32_t subgroup) override {
    return pairs_[subgroup];
  }

 private:
  std::atomic<const Trap*>* trap_;
  std::deque<TrappedPair> pairs_;
};

/// Runs a Broadcast by rank 0, during which a receive worker of rank 1 throws, and returns the
/// status at rank 1. Expects that another communicator of the same progress thread still works.
Status with_worker_that_throws(const Trap& throws) {
  std::atomic<const Trap*> trap{nullptr};
  std::atomic<bool> trap_set{false};
  Status end;
  JobSpec spec{.size = 2, .options = small_chunks()};
  spec.options.receive_workers = 1;
  bool first = true;  // only the first endpoint of rank 1 gets the trap
  spec.wrap = [&](std::shared_ptr<device::Device> inner) {
    return std::make_shared<WrappedDevice>(
        std::move(inner),
        [&](std::unique_ptr<device::Endpoint> one, Rank me) -> std::unique_ptr<device::Endpoint> {
          if (me != Rank{1} || !std::exchange(first, false)) return one;
          return std::make_unique<TrappedEndpoint>(std::move(one), trap);
        });
  };
  run_job(spec, [&](Member& member) {
    if (!member.broadcast(10 * kChunk, 0, 1)) return;
    CommunicatorOptions options = small_chunks();
    options.receive_workers = 1;
    auto other = member.communicator().duplicate(options);
    ASSERT_TRUE(other.ok()) << other.status().to_string();
    // Rank 1 sets the trap after it has begun the Broadcast, and the root sends only after that.
    // The worker therefore throws during the Broadcast.
    if (member.rank() == 0) trap_set.wait(false);
    Bytes buffer(1000 * kChunk);
    auto request = member.communicator().broadcast(buffer, Rank{0}, {Algorithm::multicast, true});
    if (member.rank() == 1) {
      ASSERT_TRUE(request.ok()) << request.status().to_string();
      while (request->progress().chunks_total == 0 && !request->test()) std::this_thread::yield();
      trap = &throws;
      trap_set = true;
      trap_set.notify_one();
    }
    // The call of the root is refused if the root learns of the failure of rank 1 before the call.
    const Status status = request.ok() ? request->wait() : request.status();
    EXPECT_FALSE(status.ok());
    if (member.rank() == 1) end = status;
    EXPECT_TRUE(Member(*other).broadcast(10 * kChunk, 0, 2));
  });
  return end;
}

TEST(ReceiveThread, WorkerOutOfMemory_doesNotAffectOtherCommunicators) {
  const Status status = with_worker_that_throws([] { throw std::bad_alloc(); });
  EXPECT_EQ(status.code(), Code::resource_exhausted) << status.to_string();
  EXPECT_NE(status.message().find("out of memory"), std::string::npos) << status.to_string();
}

TEST(ReceiveThread, WorkerThatThrowsAnInt_doesNotAffectOtherCommunicators) {
  const Status status = with_worker_that_throws([] { throw 7; });
  EXPECT_EQ(status.code(), Code::internal) << status.to_string();
  EXPECT_NE(status.message().find("std::exception"), std::string::npos) << status.to_string();
}

}  // namespace
}  // namespace tutti::scenario
