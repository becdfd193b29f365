// Tests Broadcasts whose root retains a copy of its block instead of waiting for the other ranks.
// Ranks that lost chunks READ them from the copy, there is no handshake, and the root closes once
// every rank has all blocks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>

#include "job.hpp"
#include "protocol/codec/message.hpp"
#include "wrapped_device.hpp"

namespace tutti::scenario {
namespace {

constexpr std::uint32_t kChunk = 1024;
// Epoch of the first tested collective. The epoch before it belongs to the barrier that confirms
// membership.
constexpr std::uint32_t kFirstEpoch = 2;
constexpr std::size_t kBytes = 5 * kChunk + 100;
constexpr std::uint32_t kChunks = 6;

JobSpec job(std::uint32_t size, const std::string& faults) {
  JobSpec spec{.size = size, .faults = faults, .options = small_chunks()};
  spec.options.retain_bytes = CommunicatorOptions{}.retain_bytes;
  return spec;
}

/// Runs `count` Broadcasts of `bytes`, with each rank as root in turn.
Outcome broadcasts(const JobSpec& spec, std::size_t bytes, std::uint32_t count) {
  return run_job(spec, [&](Member& member) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!member.broadcast(bytes, i % spec.size, i)) return;
    }
  });
}

/// True if no cutoff fired for silence. Otherwise the machine paused a root, and receivers asked
/// the root for chunks that were only late.
bool on_time(const Outcome& outcome) { return outcome.of("cutoff_silence") == 0; }

/// Expects that all Broadcasts used retained copies and not the fetch ring, and that each chunk
/// arrived once.
void expect_by_copies(const Outcome& outcome, std::uint32_t count, std::uint64_t chunks) {
  EXPECT_EQ(outcome.of("blocks_retained"), count);
  EXPECT_EQ(outcome.of("chunks_received") + outcome.of("chunks_fetched"),
            std::uint64_t{count} * (outcome.size - 1) * chunks)
      << outcome.describe();
  EXPECT_EQ(outcome.of("fetch_ranges_served") + outcome.of("fetch_ranges_deferred"), 0u);
  EXPECT_EQ(outcome.of("cutoff_neighbour_finished"), 0u) << "a rank used the handshake";
  EXPECT_EQ(outcome.of("retransmit_requests_sent") + outcome.of("fetch_targets_skipped"), 0u);
  EXPECT_EQ(outcome.of("messages_rejected") + outcome.of("chunks_malformed"), 0u);
  EXPECT_EQ(outcome.of("collectives_failed"), 0u);
}

TEST(RetainedBlocks, JobWithoutLoss_causesNoRecovery) {
  const Outcome outcome = broadcasts(job(4, ""), kBytes, 40);
  expect_by_copies(outcome, 40, kChunks);
  if (on_time(outcome)) {
    EXPECT_EQ(outcome.of("chunks_lost") + outcome.of("bytes_fetched"), 0u) << outcome.describe();
  }
  EXPECT_EQ(outcome.of("chunks_sent"), 40u * kChunks);
}

TEST(RetainedBlocks, ChunkLostAtOneReceiverIsReadFromTheRootsCopy) {
  std::string faults;
  std::uint32_t count = 0;
  for (std::uint32_t psn = 0; psn < kChunks; ++psn) {
    for (std::uint32_t r = 0; r < 3; ++r) {
      // The rank that loses the chunk must not be the root, because the root receives no chunk.
      const std::uint32_t at = (count % 3 + 1 + r % 2) % 3;
      faults += fmt::format("drop receiver chunk psn={} ranks={} epoch={}\n", psn, at,
                            kFirstEpoch + count++);
    }
  }
  const Outcome outcome = broadcasts(job(3, faults), kBytes, count);
  expect_by_copies(outcome, count, kChunks);
  // Once the root knows of losses, it sends a tail probe for each block. If the probe delivers a
  // lost last chunk, the receiver does not fetch that chunk.
  EXPECT_GE(outcome.of("chunks_fetched") + outcome.of("tail_probes"), count);
  EXPECT_GE(outcome.of("chunks_fetched"), count * (kChunks - 1) / kChunks);
  // One range may contain the dropped chunk and late chunks, so ranges and chunks are checked
  // separately.
  EXPECT_GE(outcome.of("retained_ranges_served") + outcome.of("tail_probes"), count);
  EXPECT_GE(outcome.of("retained_ranges_served"), count * (kChunks - 1) / kChunks);
  EXPECT_LE(2 * outcome.recovered_bytes(), 3 * outcome.lost_bytes()) << outcome.describe();
}

TEST(RetainedBlocks, ChunkLostAtEveryReceiver_isReadByEachReceiver) {
  const Outcome outcome = broadcasts(job(4, "drop sender chunk psn=2-3"), kBytes, 8);
  expect_by_copies(outcome, 8, kChunks);
  EXPECT_GE(outcome.of("chunks_fetched"), 8u * 3 * 2);
  EXPECT_LE(2 * outcome.recovered_bytes(), 3 * outcome.lost_bytes()) << outcome.describe();
}

TEST(RetainedBlocks, BlockOfWhichNoChunkArrives_isReadFromTheRoot) {
  for (const std::size_t bytes : {std::size_t{1}, kBytes}) {
    const std::uint64_t chunks = (bytes + kChunk - 1) / kChunk;
    const Outcome outcome = broadcasts(job(4, "drop sender chunk"), bytes, 12);
    expect_by_copies(outcome, 12, chunks);
    EXPECT_EQ(outcome.of("chunks_fetched"), 12 * 3 * chunks);
    EXPECT_EQ(outcome.of("chunks_lost"), 12 * 3 * chunks)
        << "every chunk that was read must have been declared lost";
  }
}

TEST(RetainedBlocks, RandomLossDamageAndDisorderAreRepaired) {
  JobSpec spec = job(5,
                     "seed=7; drop receiver chunk rate=3%; drop sender chunk rate=2%;"
                     "corrupt receiver chunk rate=2%; duplicate receiver chunk rate=5%;"
                     "reorder receiver chunk rate=5% distance=3 by=200us");
  const Outcome outcome = broadcasts(spec, 20 * kChunk, 60);
  expect_by_copies(outcome, 60, 20);
  EXPECT_GT(outcome.of("retained_ranges_served"), 0u);
}

TEST(RetainedBlocks, LostAcksAndAnswers_areRetransmittedUntilTheyArrive) {
  const Outcome outcome = broadcasts(
      job(3, "seed=3; drop sender reliable rate=20%; drop receiver chunk rate=10%"), kBytes, 30);
  expect_by_copies(outcome, 30, kChunks);
  EXPECT_GT(outcome.of("retained_ranges_served"), 0u);
  EXPECT_GT(outcome.injected.frames_dropped, 0u);
}

TEST(RetainedBlocks, BroadcastsCompleteWhileEpochsWrap) {
  JobSpec spec = job(3, "drop receiver chunk rate=10%");
  spec.first_epoch = 0xffff'fff0u;
  const Outcome outcome = broadcasts(spec, kBytes, 40);
  expect_by_copies(outcome, 40, kChunks);
  EXPECT_GT(outcome.of("retained_ranges_served"), 0u);
}

TEST(RetainedBlocks, BroadcastTooLongToRetain_usesTheHandshake) {
  JobSpec spec = job(3, "");
  spec.options.retain_bytes = kBytes - 1;
  std::atomic<std::uint32_t> finals = 0;
  spec.wrap = watch_work([&](Rank, const device::WorkRequest& request) {
    const auto message = sent_message(request);
    if (message && message->epoch >= kFirstEpoch && message->kind == protocol::MessageKind::final)
      ++finals;
  });
  const Outcome outcome = broadcasts(spec, kBytes, 5);
  EXPECT_EQ(outcome.of("blocks_retained") + outcome.of("delivery_acks_sent"), 0u);
  EXPECT_GE(finals, 5 * spec.size) << "each rank sends one in each Broadcast";
}

TEST(RetainedBlocks, FastRoot_isStoppedByAReadyBarrier_whenTheWindowIsFull) {
  constexpr std::uint32_t kCount = 2'000;
  JobSpec spec = job(3, "drop receiver chunk rate=0.5%");
  spec.options.window_bytes = 64 * kChunk;
  const Outcome outcome = run_job(spec, [&](Member& member) {
    for (std::uint32_t i = 0; i < kCount; ++i) {
      if (!member.broadcast(64, 0, i)) return;
    }
  });
  expect_by_copies(outcome, kCount, 1);
  // Each Broadcast takes at least 2 KiB of the credit window, even if its block is shorter. A ready
  // barrier frees the window, because it proves that all earlier Broadcasts have arrived.
  EXPECT_GE(outcome.of("ready_by_barrier"), kCount / 32 * 3);
}

// The root answers once it has retained its block. An answer of the fetch ring before that would
// make the reader ask a neighbour, which has no copy.
TEST(RetainedBlocks, RequestThatArrivesBeforeTheRootHasSent_isNotRefused) {
  std::barrier<> asked(3);
  JobSpec spec = job(3, "");
  std::atomic<int> refusals = 0;
  spec.wrap = watch_work([&](Rank me, const device::WorkRequest& request) {
    const auto message = sent_message(request);
    if (me != rank_of(0) || !message || message->epoch != kFirstEpoch) return;
    if (message->kind == protocol::MessageKind::fetch_pending ||
        message->kind == protocol::MessageKind::fetch_lost ||
        message->kind == protocol::MessageKind::fetch_expired)
      ++refusals;
  });
  const Outcome outcome = run_job(spec, [&](Member& member) {
    const Bytes expected = pattern(kBytes, 5);
    Bytes buffer = member.rank() == 0 ? expected : Bytes(kBytes);
    Request request;
    const auto call = [&] {
      auto called = member.communicator().broadcast(buffer, rank_of(0), {Algorithm::multicast});
      ASSERT_TRUE(called.ok()) << called.status().to_string();
      request = *called;
    };
    if (member.rank() != 0) {
      call();
      const auto questions = [&] {
        for (const auto& [name, value] : member.communicator().counters()) {
          if (name == "cutoff_silence") return value;
        }
        return std::uint64_t{0};
      };
      while (questions() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    asked.arrive_and_wait();
    if (member.rank() == 0) call();
    EXPECT_TRUE(request.wait_for(std::chrono::seconds(100)).ok());
    EXPECT_TRUE(buffer == expected);
  });
  expect_by_copies(outcome, 1, kChunks);
  EXPECT_EQ(refusals, 0);
  EXPECT_EQ(outcome.of("fetch_ranges_asked"), 2u);
  EXPECT_LE(outcome.of("chunks_lost"), outcome.late_chunks()) << outcome.describe();
  EXPECT_LE(outcome.of("chunks_fetched"), outcome.late_chunks()) << outcome.describe();
}

TEST(RetainedBlocks, ClosingRootStillServesMissingChunks) {
  JobSpec spec = job(4, "drop sender chunk");
  spec.close_together = false;
  std::barrier<> root_is_done(4);
  const Outcome outcome = run_job(spec, [&](Member& member) {
    if (member.rank() != 0) root_is_done.arrive_and_wait();
    EXPECT_TRUE(member.broadcast(kBytes, 0, 1));
    if (member.rank() == 0) root_is_done.arrive_and_wait();
  });
  EXPECT_EQ(outcome.of("chunks_fetched"), 3u * kChunks);
}

/// A frame tap that drops all frames of rank 2 once it is muted.
class MuteRank final : public device::FrameTap {
 public:
  unsigned copies(Rank from, Rank, std::size_t) override {
    return from == rank_of(2) && muted ? 0 : 1;
  }
  std::atomic<bool> muted{false};
};

TEST(RetainedBlocks, ClosingRootDoesNotWaitForALostRank) {
  const auto tap = std::make_shared<MuteRank>();
  JobSpec spec = job(3, "");
  spec.close_together = false;
  spec.tap = tap;
  spec.options.peer_timeout = std::chrono::seconds(1);
  std::barrier<> together(3);
  const Outcome outcome = run_job(spec, [&](Member& member) {
    together.arrive_and_wait();
    tap->muted = true;
    if (member.rank() == 2) return;  // rank 2 makes no call and is silent from now on
    EXPECT_TRUE(member.broadcast(kBytes, 0, 1));
  });
  EXPECT_EQ(outcome.of("blocks_retained"), 1u);
}

/// A queue pair that reports all its chunks as unsent while `held` is true, although it sends them.
class HeldQueue final : public device::MulticastQueuePair {
 public:
  /// `inner` and `held` must outlive the queue pair.
  HeldQueue(device::MulticastQueuePair& inner, const bool& held) : inner_(inner), held_(held) {}

  std::uint64_t unsent_bytes() override {
    return held_ ? std::uint64_t{1} << 40 : inner_.unsent_bytes();
  }
  Result<std::uint32_t> post(const device::ChunkRun& run) override { return inner_.post(run); }
  bool reads_posted() override { return inner_.reads_posted(); }
  std::size_t poll(std::span<device::ReceivedChunk> chunks) override { return inner_.poll(chunks); }
  bool copy_and_verify(const device::ReceivedChunk& chunk, std::byte* destination) override {
    return inner_.copy_and_verify(chunk, destination);
  }
  void release() override { inner_.release(); }
  bool set_resolver(device::PlacementResolver* guide) override {
    return inner_.set_resolver(guide);
  }
  Instant next_arrival(Instant now) override { return inner_.next_arrival(now); }
  int receive_descriptor() const override { return inner_.receive_descriptor(); }
  Status post_probe(std::uint32_t attempt, std::uint32_t bytes) override {
    return inner_.post_probe(attempt, bytes);
  }

 private:
  device::MulticastQueuePair& inner_;
  const bool& held_;
};

/// An endpoint whose queue pairs report their chunks as unsent until all delivery ACKs have
/// arrived. `receipts` counts the missing ACKs down and must outlive the endpoint.
class HeldEndpoint final : public device::ForwardingEndpoint {
 public:
  HeldEndpoint(std::unique_ptr<device::Endpoint> inner, std::atomic<int>& receipts)
      : ForwardingEndpoint(std::move(inner)), receipts_(receipts), held_(receipts > 0) {
    for (std::uint32_t s = 0; s < subgroup_count(); ++s) {
      queues_.emplace_back(ForwardingEndpoint::multicast(s), held_);
    }
  }

  device::MulticastQueuePair& multicast(std::uint32_t subgroup) override {
    return queues_[subgroup];
  }
  std::size_t poll(Instant now, std::span<device::Completion> completions) override {
    return look(completions.first(ForwardingEndpoint::poll(now, completions)));
  }
  std::size_t poll_posted(Instant now, std::span<device::Completion> completions) override {
    return look(completions.first(ForwardingEndpoint::poll_posted(now, completions)));
  }

 private:
  std::size_t look(std::span<const device::Completion> completions) {
    for (const device::Completion& one : completions) {
      if (one.opcode != device::Opcode::receive) continue;
      const auto message = protocol::decode(one.payload);
      if (message && message->kind == protocol::MessageKind::delivered) --receipts_;
    }
    held_ = receipts_ > 0;
    return completions.size();
  }

  std::atomic<int>& receipts_;
  bool held_;
  std::deque<HeldQueue> queues_;
};

/// The root receives all delivery ACKs while its queue pair still reports the chunks as unsent.
TEST(RetainedBlocks, RootThatGetsAllAcksBeforeItsChunksCountAsSent_closes) {
  JobSpec spec = job(3, "");
  spec.close_together = false;
  std::atomic<int> receipts = 2;  // number of delivery ACKs that the root still expects
  spec.wrap = [&](std::shared_ptr<device::Device> inner) {
    return std::make_shared<WrappedDevice>(std::move(inner),
                                           [&](std::unique_ptr<device::Endpoint> endpoint,
                                               Rank me) -> std::unique_ptr<device::Endpoint> {
                                             if (me != rank_of(0)) return endpoint;
                                             return std::make_unique<HeldEndpoint>(
                                                 std::move(endpoint), receipts);
                                           });
  };
  const Outcome outcome =
      run_job(spec, [&](Member& member) { EXPECT_TRUE(member.broadcast(kBytes, 0, 1)); });
  expect_by_copies(outcome, 1, kChunks);
  EXPECT_EQ(receipts, 0) << "all delivery ACKs must arrive while the queues are held";
}

/// If the root no longer has its retained copy, a receiver must ask neither the root again nor
/// another rank, and must end with an error. Only rank 1 gets the answer "expired", because a
/// failure of rank 2 would end the call of rank 1 with another error.
TEST(RetainedBlocks, RootThatLostItsRetainedCopy_isNamedInTheError) {
  JobSpec spec = job(3, "drop receiver chunk psn=2 ranks=1");
  spec.options.retain_bytes = kBytes;
  std::atomic<int> lies = 0;
  spec.wrap = watch_work([&](Rank, const device::WorkRequest& request) {
    auto message = sent_message(request);
    if (request.peer != rank_of(1) || !message ||
        message->kind != protocol::MessageKind::fetch_ready)
      return;
    message->kind = protocol::MessageKind::fetch_expired;
    protocol::encode(*message, request.local.data());
    ++lies;
  });
  std::barrier created(3);
  const Outcome outcome = run_job(spec, [&](Member& member) {
    created.arrive_and_wait();  // no rank may fail before creation has ended at every rank
    const Bytes expected = pattern(kBytes, 5);
    Bytes buffer = member.rank() == 0 ? expected : Bytes(kBytes);
    auto request = member.communicator().broadcast(buffer, rank_of(0), {Algorithm::multicast});
    // If rank 1 fails before rank 2 makes its call, the call of rank 2 is refused.
    if (member.rank() == 2 && !request.ok()) return;
    ASSERT_TRUE(request.ok()) << request.status().to_string();
    const Status status = request->wait_for(std::chrono::seconds(100));
    if (member.rank() != 1) return;
    EXPECT_EQ(status.code(), Code::peer_failed);
    EXPECT_NE(status.message().find("rank 0"), std::string::npos) << status.to_string();
    EXPECT_NE(status.message().find("no longer retains the chunks"), std::string::npos)
        << status.to_string();
  });
  EXPECT_EQ(outcome.of("blocks_retained"), 1u);
  EXPECT_EQ(outcome.by_rank[1].at("chunks_fetched"), 0u);
  EXPECT_GE(lies, 1);
}

}  // namespace
}  // namespace tutti::scenario
