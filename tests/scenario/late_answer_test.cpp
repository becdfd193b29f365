// Tests recovery ([Khalilov24] 3.3, slow path) while one rank is silent for a time. A rank that
// fetches the lost chunk from another rank completes, and the late answer of the silent rank then
// changes nothing. A READ from a rank that has left the collective is refused.
//
// Rank 3 of four ranks loses one chunk of a Broadcast by rank 0, so it asks rank 2, then rank 1,
// then rank 0. Connections are muted and opened by actions of the ranks, never by time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "job.hpp"
#include "protocol/codec/message.hpp"
#include "wrapped_device.hpp"

namespace tutti::scenario {
namespace {

constexpr std::uint32_t kSize = 4;
// Epoch of the tested Broadcast, after a barrier and a first Broadcast.
constexpr std::uint32_t kEpoch = 3;
constexpr std::uint32_t kReader = 3;  // rank that loses a chunk
constexpr std::size_t kChunk = 1024;
constexpr std::size_t kBytes = 8 * kChunk;
constexpr std::size_t kLostAt = 2 * kChunk;  // byte offset of the chunk that kReader loses
constexpr auto kScribble = std::byte{0x5a};

/// Mutes reliable connections, each direction on its own. Frames on a muted connection are lost,
/// and their retransmissions arrive once the connection is open again.
class Connections final : public device::FrameTap {
 public:
  unsigned copies(Rank from, Rank to, std::size_t) override {
    return muted_[index(from)][index(to)] ? 0 : 1;
  }
  void mute(std::uint32_t from, std::uint32_t to) { muted_[from][to] = true; }
  void open(std::uint32_t from, std::uint32_t to) { muted_[from][to] = false; }
  void mute_all_from(std::uint32_t from) {
    for (std::uint32_t to = 0; to < kSize; ++to) mute(from, to);
  }
  void open_all_from(std::uint32_t from) {
    for (std::uint32_t to = 0; to < kSize; ++to) open(from, to);
  }

 private:
  std::array<std::array<std::atomic<bool>, kSize>, kSize> muted_{};
};

/// Waits until `holds` returns true. Returns false if that takes too long.
bool eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// The tested Broadcast as one rank runs it, with the buffer and the request of that rank.
class Story {
 public:
  Story(Member& member, std::uint64_t seed)
      : member_(&member), expected_(pattern(kBytes, seed)), buffer_(kBytes) {
    if (rank() == 0) buffer_ = expected_;
  }

  std::uint32_t rank() const { return member_->rank(); }
  void call() {
    auto request = member_->communicator().broadcast(buffer_, rank_of(0), {Algorithm::multicast});
    ASSERT_TRUE(request.ok()) << request.status().to_string();
    request_ = *request;
  }
  bool over() { return request_.progress().done; }
  bool looks() { return !member_->communicator().counters().empty(); }
  /// Waits for the end of the Broadcast and checks every byte.
  void end() {
    const Status status = request_.wait_for(std::chrono::seconds(100));
    EXPECT_TRUE(status.ok()) << "rank " << rank() << ": " << status.to_string() << "\n"
                             << member_->communicator().flight_record();
    EXPECT_TRUE(buffer_ == expected_) << "rank " << rank() << " has wrong bytes";
  }
  /// Overwrites the buffer, which belongs to the caller again once the Broadcast has ended.
  void scribble() { std::fill(buffer_.begin(), buffer_.end(), kScribble); }
  bool untouched() const { return buffer_ == Bytes(kBytes, kScribble); }

 private:
  Member* member_;
  Bytes expected_;
  Bytes buffer_;
  Request request_;
};

class LateAnswer : public testing::Test {
 protected:
  LateAnswer() : all_ranks_(kSize), connections_(std::make_shared<Connections>()) {}

  /// Runs a first Broadcast, which proves that all ranks are ready, then `act` on every rank, then
  /// an Allgather. Once the Allgather has ended, no message of the tested Broadcast is under way.
  void run(const std::function<void(Story&)>& act) {
    JobSpec spec{
        .size = kSize,
        .faults = fmt::format("drop receiver chunk psn=2 ranks={} epoch={}", kReader, kEpoch),
        .tap = connections_,
        .options = small_chunks()};
    spec.wrap = watch_work(
        [this](Rank me, const device::WorkRequest& request) { watch(index(me), request); });
    outcome_ = run_job(spec, [&](Member& member) {
      if (!member.broadcast(kBytes, 0, 1)) return;
      all_ranks_.arrive_and_wait();
      Story story(member, 2);
      act(story);
      EXPECT_TRUE(member.allgather(kBytes, 3));
      EXPECT_TRUE(story.untouched())
          << "the buffer of rank " << story.rank() << " changed after the end of the Broadcast";
    });
    EXPECT_EQ(outcome_.injected.chunks_dropped_at_receiver, 1u);
    EXPECT_GE(of(kReader, "chunks_fetched"), 1u) << outcome_.describe();
  }

  std::uint64_t of(std::uint32_t rank, const std::string& counter) {
    return outcome_.by_rank[rank][counter];
  }

  std::barrier<> all_ranks_;
  std::shared_ptr<Connections> connections_;
  // asked_[r] counts the fetch requests of kReader to rank r during the tested Broadcast, ready_[r]
  // the answers "ready" of rank r to kReader, gone_[r] its answers "expired" to kReader, and
  // read_[r] how often kReader READs the lost chunk from rank r.
  std::array<std::atomic<std::uint32_t>, kSize> asked_{};
  std::array<std::atomic<std::uint32_t>, kSize> read_{};
  std::array<std::atomic<std::uint32_t>, kSize> ready_{};
  std::array<std::atomic<std::uint32_t>, kSize> gone_{};
  /// Called just before kReader READs the lost chunk from rank `from` for the first time.
  std::function<void(std::uint32_t from)> on_read_ = [](std::uint32_t) {};
  Outcome outcome_;

 private:
  void watch(std::uint32_t me, const device::WorkRequest& request) {
    const std::uint32_t peer = index(request.peer);
    const bool ours = request.work_id >> 32 == kEpoch;
    const bool of_lost_chunk =
        request.remote_offset <= kLostAt && kLostAt < request.remote_offset + request.local.size();
    if (request.opcode == device::Opcode::read && ours && of_lost_chunk && me == kReader) {
      if (read_[peer] == 0) on_read_(peer);
      // The count grows only after on_read_ has muted connections, because a rank that sees the new
      // count may open these connections again.
      ++read_[peer];
    }
    const auto message = sent_message(request);
    if (!message || message->epoch != kEpoch) return;
    // The other ranks may recover late chunks of their own from each other.
    if (me == kReader && message->kind == protocol::MessageKind::fetch_request) ++asked_[peer];
    if (peer != kReader) return;
    if (message->kind == protocol::MessageKind::fetch_ready) ++ready_[me];
    if (message->kind == protocol::MessageKind::fetch_expired) ++gone_[me];
  }
};

TEST_F(LateAnswer, LateFetchAnswer_afterTheEndOfTheBroadcast_causesNoRead) {
  run([&](Story& story) {
    if (story.rank() == kReader) connections_->mute_all_from(2);
    all_ranks_.arrive_and_wait();
    story.call();
    story.end();  // kReader ends first, because the other ranks wait for rank 2
    story.scribble();
    if (story.rank() == kReader) connections_->open_all_from(2);
  });
  EXPECT_GE(of(kReader, "fetch_targets_skipped"), 1u) << outcome_.describe();
  // Rank 2 posts its answer before it begins the Allgather of run(). That Allgather has completed,
  // so the answer has arrived.
  EXPECT_GE(ready_[2], 1u);
  EXPECT_EQ(read_[2], 0u);
  EXPECT_EQ(read_[0] + read_[1], 1u);
}

TEST_F(LateAnswer, UnansweredReadKeepsTheCollectiveOpen) {
  on_read_ = [&](std::uint32_t from) {
    if (from != 2) return;
    connections_->mute_all_from(2);
    connections_->open(0, kReader);
    connections_->open(1, kReader);
  };
  run(
      [&](Story& story) {
        if (story.rank() == kReader) {
          connections_->mute(2, 1);  // rank 1 cannot finish without frames of rank 2
          connections_->mute(0, kReader);
          connections_->mute(1, kReader);
        }
        all_ranks_.arrive_and_wait();
        story.call();
        if (story.rank() == kReader) {
          // Rank 2 does not answer the READ, so the reader asks rank 1 and then rank 0. While the
          // READ is open, the reader posts no second READ, although rank 1 answers "ready".
          EXPECT_TRUE(eventually([&] { return read_[2] > 0 && ready_[1] > 0 && asked_[0] > 0; }));
          EXPECT_FALSE(story.over())
              << "the collective must stay open, because the bytes of rank 2 may still arrive";
          connections_->open_all_from(2);
        }
        story.end();
        story.scribble();
      });
  EXPECT_GE(of(kReader, "fetch_targets_skipped"), 2u) << outcome_.describe();
  EXPECT_EQ(read_[0] + read_[1], 0u) << "the chunk was read twice";
  EXPECT_EQ(read_[2], 1u);
}

TEST_F(LateAnswer, RanksThatHaveLeftTheCollective_answerFetchRequestsWithExpired) {
  std::atomic<bool> past[2]{};
  run([&](Story& story) {
    if (story.rank() == kReader) {
      connections_->mute(2, kReader);
      connections_->mute(kReader, 0);
      connections_->mute(kReader, 1);
    }
    all_ranks_.arrive_and_wait();
    story.call();
    if (story.rank() == kReader) {
      EXPECT_TRUE(eventually([&]() -> bool { return past[0] && past[1]; }));
      EXPECT_FALSE(story.over());
      connections_->open(kReader, 0);
      connections_->open(kReader, 1);
      // The reader asks rank 2 again once ranks 0 and 1 have both answered "expired".
      EXPECT_TRUE(eventually([&] { return gone_[0] > 0 && gone_[1] > 0 && asked_[2] > 1; }));
      EXPECT_FALSE(story.over());
      connections_->open(2, kReader);
    }
    story.end();
    story.scribble();
    if (story.rank() >= 2) return;
    past[story.rank()] = true;
    // Continuous calls of counters() must not keep the background thread from making progress.
    EXPECT_TRUE(eventually([&] { return story.looks() && gone_[story.rank()] > 0; }));
  });
  EXPECT_GE(of(kReader, "fetch_targets_skipped"), 3u) << "the reader must skip ranks 2, 1 and 0\n"
                                                      << outcome_.describe();
  EXPECT_EQ(ready_[0] + ready_[1], 0u);
  EXPECT_EQ(read_[2], 1u);
}

TEST_F(LateAnswer, ReadFromARankThatHasLeftTheCollective_isRefused) {
  on_read_ = [&](std::uint32_t from) {
    if (from == 1) connections_->mute(kReader, 1);
  };
  std::atomic<bool> past{false};
  run([&](Story& story) {
    if (story.rank() == kReader) {
      // No frame of rank 2 arrives. Rank 1 therefore stays in the collective, and the reader, which
      // gets no answer from rank 2, asks rank 1 next.
      connections_->mute_all_from(2);
      connections_->mute(0, kReader);  // the root cannot answer the reader
    }
    all_ranks_.arrive_and_wait();
    story.call();
    if (story.rank() == kReader) {
      EXPECT_TRUE(eventually([&] { return read_[1] > 0; }));
      connections_->open(2, 1);
      EXPECT_TRUE(eventually([&]() -> bool { return past; }));
      EXPECT_FALSE(story.over());
      connections_->open(kReader, 1);
      connections_->open(0, kReader);
      connections_->open_all_from(2);
    }
    story.end();
    story.scribble();
    if (story.rank() == 1) past = true;
  });
  EXPECT_GE(of(kReader, "fetch_targets_skipped"), 2u)
      << "the reader must skip rank 2, and rank 1, which refused the READ";
  EXPECT_EQ(read_[1], 1u);
  // Rank 1 may have served READs of other, late chunks, but it must not have served the READ of the
  // lost chunk.
  EXPECT_LE(of(1, "device_read_bytes_served"), outcome_.of("bytes_fetched") - kChunk)
      << "rank 1 served bytes after its buffer had returned to the caller";
  EXPECT_GE(read_[0] + read_[2], 1u) << "the chunk must be read from another rank";
}

}  // namespace
}  // namespace tutti::scenario
