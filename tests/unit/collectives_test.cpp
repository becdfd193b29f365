// Tests every algorithm of every collective over the real network stack, with the ranks as threads
// of this process. The results must have the right bits, and counters must show the path that the
// data took.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "collectives/registry.hpp"
#include "communicator_ranks.hpp"
#include "reduction/reducer.hpp"
#include "runtime/communicator/create.hpp"

namespace tutti {
namespace {

using namespace test;

/// Ends a test with a barrier, so that no rank leaves before all ranks have received their data.
void on_ranks(std::uint32_t size, const RankBody& body,
              const CommunicatorOptions& options = patient()) {
  test::on_ranks(size, options, [&](Communicator& communicator) {
    body(communicator);
    finish(communicator.barrier());
  });
}

/// One call with its data and its expected result.
class Trial {
 public:
  Trial(Communicator& communicator, const collectives::AlgorithmEntry& entry, std::size_t block,
        std::uint32_t root, bool in_place)
      : communicator_(communicator), entry_(entry), block_(block), root_(root) {
    const Collective collective = entry.collective;
    ranks_ = communicator.size();
    me_ = index(communicator.rank());
    in_place_ = in_place && can_be_in_place(collective);
    sent_ = pattern(send_bytes(), 77 + me_);
    received_.assign(receive_bytes(), std::byte{0xee});
  }

  void run(const CollectiveOptions& options = {}) {
    CollectiveCall call{.collective = entry_.collective,
                        .send = sent_,
                        .receive = received_,
                        .root = rank_of(has_root(entry_.collective) ? root_ : 0),
                        .reduction = {.type = DataType::uint8},
                        .options = options};
    call.options.algorithm = Algorithm(entry_.name);
    call.options.will_wait = true;
    if (in_place_) place_in_place(call);
    if (entry_.collective == Collective::broadcast) {
      if (me_ == root_) received_ = pattern(block_, 77 + root_);
      call.send = {};
      call.receive = received_;
    }
    call.sizes_bytes = received_blocks_.sizes;
    call.offsets_bytes = received_blocks_.offsets;
    call.send_sizes_bytes = sent_blocks_.sizes;
    call.send_offsets_bytes = sent_blocks_.offsets;
    auto request = communicator_.start(call);
    ASSERT_TRUE(request.ok()) << request.status().to_string();
    const Status status = request->wait_for(kLong);
    ASSERT_TRUE(status.ok()) << status.to_string();
    const Bytes wanted = expected();
    const std::span<const std::byte> result = call.receive;
    ASSERT_EQ(result.size(), wanted.size());
    const auto at = std::mismatch(result.begin(), result.end(), wanted.begin()).first;
    EXPECT_EQ(at - result.begin(), std::ptrdiff_t(wanted.size()))
        << to_string(entry_.collective) << " " << entry_.name << ", P = " << ranks_ << ", block "
        << block_ << ", root " << root_ << ", rank " << me_ << (in_place_ ? ", in place" : "");
  }

 private:
  static bool can_be_in_place(Collective collective) {
    return collective != Collective::barrier && collective != Collective::broadcast &&
           collective != Collective::alltoallv;
  }

  /// Blocks of different sizes, with gaps.
  struct Blocks {
    std::vector<std::uint64_t> sizes;
    std::vector<std::uint64_t> offsets;

    void add(std::uint64_t size) {
      offsets.push_back(bytes() + 5);
      sizes.push_back(size);
    }
    std::uint64_t bytes() const { return sizes.empty() ? 0 : offsets.back() + sizes.back(); }
  };

  /// Size of the block from one rank to another, in calls with blocks of different sizes.
  std::size_t varying_bytes(std::uint32_t from, std::uint32_t to) const {
    const Collective collective = entry_.collective;
    const bool by_source =
        collective == Collective::allgatherv || collective == Collective::gatherv;
    const std::uint32_t number = by_source                             ? from
                                 : collective == Collective::alltoallv ? 3 * from + to
                                                                       : to;
    return block_ * (number % 3) + number;
  }

  bool at_root() const { return me_ == root_; }

  std::size_t send_bytes() {
    switch (entry_.collective) {
      case Collective::barrier:
      case Collective::broadcast:
        return 0;
      case Collective::scatter:
        return at_root() ? block_ * ranks_ : 0;
      case Collective::alltoall:
      case Collective::reduce_scatter:
        return block_ * ranks_;
      case Collective::allgatherv:
      case Collective::gatherv:
        return varying_bytes(me_, 0);
      case Collective::scatterv:
        return at_root() ? sent_blocks().bytes() : 0;
      case Collective::alltoallv:
      case Collective::reduce_scatterv:
        return sent_blocks().bytes();
      default:
        return block_;
    }
  }
  /// Lays out the blocks of the send buffer.
  const Blocks& sent_blocks() {
    for (std::uint32_t r = 0; r < ranks_; ++r) sent_blocks_.add(varying_bytes(me_, r));
    return sent_blocks_;
  }
  /// Lays out the blocks of the receive buffer.
  const Blocks& received_blocks() {
    for (std::uint32_t r = 0; r < ranks_; ++r) received_blocks_.add(varying_bytes(r, me_));
    return received_blocks_;
  }
  std::size_t receive_bytes() {
    switch (entry_.collective) {
      case Collective::barrier:
        return 0;
      case Collective::allgather:
      case Collective::alltoall:
        return block_ * ranks_;
      case Collective::gather:
        return at_root() ? block_ * ranks_ : 0;
      case Collective::reduce:
        return at_root() ? block_ : 0;
      case Collective::allgatherv:
      case Collective::alltoallv:
        return received_blocks().bytes() + 5;
      case Collective::gatherv:
        return at_root() ? received_blocks().bytes() + 5 : 0;
      case Collective::scatterv:
      case Collective::reduce_scatterv:
        return varying_bytes(0, me_);
      default:
        return block_;
    }
  }

  void place_in_place(CollectiveCall& call) {
    const std::span<std::byte> all = received_;
    switch (entry_.collective) {
      case Collective::allgather:
        copy_own_to(all.subspan(me_ * block_, block_), call);
        return;
      case Collective::allgatherv:
        copy_own_to(all.subspan(received_blocks_.offsets[me_], received_blocks_.sizes[me_]), call);
        return;
      case Collective::gatherv:
        if (!at_root()) return;
        copy_own_to(all.subspan(received_blocks_.offsets[me_], received_blocks_.sizes[me_]), call);
        return;
      case Collective::scatterv:
        if (!at_root()) return;
        [[fallthrough]];
      case Collective::reduce_scatterv:
        call.receive = std::span(sent_).subspan(sent_blocks_.offsets[me_], sent_blocks_.sizes[me_]);
        return;
      case Collective::gather:
        if (at_root()) copy_own_to(all.subspan(me_ * block_, block_), call);
        return;
      case Collective::allreduce:
      case Collective::alltoall:
        copy_own_to(all, call);
        return;
      case Collective::reduce:
        if (at_root()) copy_own_to(all, call);
        return;
      case Collective::scatter:
        if (at_root()) call.receive = std::span(sent_).subspan(me_ * block_, block_);
        return;
      case Collective::reduce_scatter:
        call.receive = std::span(sent_).subspan(me_ * block_, block_);
        return;
      default:
        return;
    }
  }
  void copy_own_to(std::span<std::byte> place, CollectiveCall& call) {
    std::copy(sent_.begin(), sent_.end(), place.begin());
    call.send = place;
  }

  /// The element-wise sum of the vectors of all ranks, each of `bytes` 8-bit integers.
  Bytes sum(std::size_t bytes) const {
    Bytes total(bytes);
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      const Bytes one = pattern(bytes, 77 + r);
      for (std::size_t i = 0; i < bytes; ++i)
        total[i] =
            static_cast<std::byte>(static_cast<unsigned>(total[i]) + static_cast<unsigned>(one[i]));
    }
    return total;
  }

  /// Calls `put` for the block that `source` sends to this rank in a Scatterv or Alltoallv.
  template <typename Put>
  void put_block_from(std::uint32_t source, const Put& put) const {
    const bool scatters = entry_.collective == Collective::scatterv;
    if (scatters && source != root_) return;
    Blocks theirs;
    for (std::uint32_t r = 0; r < ranks_; ++r) theirs.add(varying_bytes(source, r));
    put(scatters ? 0 : received_blocks_.offsets[source], pattern(theirs.bytes(), 77 + source),
        theirs.offsets[me_], theirs.sizes[me_]);
  }

  Bytes expected() const {
    Bytes wanted(received_.size(), std::byte{0xee});
    const auto put = [&](std::size_t at, const Bytes& bytes, std::size_t from, std::size_t count) {
      std::copy_n(bytes.begin() + std::ptrdiff_t(from), count, wanted.begin() + std::ptrdiff_t(at));
    };
    switch (entry_.collective) {
      case Collective::barrier:
        break;
      case Collective::broadcast:
        put(0, pattern(block_, 77 + root_), 0, block_);
        break;
      case Collective::allgather:
      case Collective::gather:
        for (std::uint32_t r = 0; r < ranks_ && !wanted.empty(); ++r)
          put(r * block_, pattern(block_, 77 + r), 0, block_);
        break;
      case Collective::allgatherv:
      case Collective::gatherv:
        for (std::uint32_t r = 0; r < ranks_ && !wanted.empty(); ++r)
          put(received_blocks_.offsets[r], pattern(varying_bytes(r, 0), 77 + r), 0,
              varying_bytes(r, 0));
        break;
      case Collective::scatterv:
      case Collective::alltoallv:
        for (std::uint32_t r = 0; r < ranks_; ++r) put_block_from(r, put);
        break;
      case Collective::reduce_scatterv:
        put(0, sum(sent_blocks_.bytes()), sent_blocks_.offsets[me_], varying_bytes(0, me_));
        break;
      case Collective::scatter:
        put(0, pattern(block_ * ranks_, 77 + root_), me_ * block_, block_);
        break;
      case Collective::alltoall:
        for (std::uint32_t r = 0; r < ranks_; ++r)
          put(r * block_, pattern(block_ * ranks_, 77 + r), me_ * block_, block_);
        break;
      case Collective::reduce:
      case Collective::allreduce:
        if (!wanted.empty()) put(0, sum(block_), 0, block_);
        break;
      case Collective::reduce_scatter:
        put(0, sum(block_ * ranks_), me_ * block_, block_);
        break;
    }
    return wanted;
  }

  Communicator& communicator_;
  const collectives::AlgorithmEntry& entry_;
  std::size_t block_;
  std::uint32_t root_;
  std::uint32_t ranks_ = 0;
  std::uint32_t me_ = 0;
  bool in_place_ = false;
  Blocks sent_blocks_;
  Blocks received_blocks_;
  Bytes sent_;
  Bytes received_;
};

bool serves(const collectives::AlgorithmEntry& entry, std::uint32_t ranks,
            const schedule::Parameters& parameters) {
  schedule::Purpose purpose{.collective = entry.collective,
                            .algorithm = std::string(entry.name),
                            .ranks = ranks,
                            .rank = Rank{0},
                            .root = Rank{0},
                            .parameters = parameters};
  return entry.restriction == nullptr || entry.restriction(purpose).ok();
}

class EveryAlgorithm : public testing::TestWithParam<std::uint32_t> {};

INSTANTIATE_TEST_SUITE_P(Collectives, EveryAlgorithm, testing::Range(1u, 17u),
                         [](const auto& one) { return "P" + std::to_string(one.param); });

TEST_P(EveryAlgorithm, ResultOfEachCollective_hasTheRightBits) {
  on_ranks(GetParam(), [](Communicator& communicator) {
    const std::uint32_t ranks = communicator.size();
    for (const collectives::AlgorithmEntry& entry : collectives::algorithms()) {
      if (!serves(entry, ranks, {})) continue;
      for (const std::size_t block : {0u, 1u, 1'003u, 20'011u}) {
        Trial(communicator, entry, block, 0, false).run();
        Trial(communicator, entry, block, ranks - 1, true).run();
      }
    }
    const Counters counters = counters_of(communicator);
    if (ranks == 1) return;
    EXPECT_GT(counters.at("messages_eager"), 0u);
    EXPECT_GT(counters.at("messages_rendezvous"), 0u);
    EXPECT_GT(counters.at("chunks_received"), 0u);
    EXPECT_EQ(counters.at("messages_rejected"), 0u);
  });
}

TEST(Collectives, AlgorithmsWithParameters_haveTheRightResult) {
  on_ranks(9, [](Communicator& communicator) {
    for (const collectives::AlgorithmEntry& entry : collectives::algorithms()) {
      if ((entry.heeds & collectives::kPorts) != 0) {
        Trial(communicator, entry, 513, 0, false).run({.ports = 2});
      }
      if ((entry.heeds & collectives::kRadix) != 0) {
        Trial(communicator, entry, 513, 4, false).run({.radix = 3});
      }
      if ((entry.heeds & collectives::kSegments) != 0) {
        Trial(communicator, entry, 100'003, 7, false).run({.segments = 13});
      }
    }
  });
}

TEST(Collectives, LongMessages_useRendezvous_andShortOnesAreEager) {
  on_ranks(2, [](Communicator& communicator) {
    const auto* entry = collectives::find_algorithm(Collective::allgather, "ring").value();
    const auto messages = [&](std::size_t block) {
      const Counters before = counters_of(communicator);
      Trial(communicator, *entry, block, 0, false).run();
      const Counters after = counters_of(communicator);
      return std::pair(after.at("messages_eager") - before.at("messages_eager"),
                       after.at("messages_rendezvous") - before.at("messages_rendezvous"));
    };
    EXPECT_EQ(messages(16'000), std::pair(std::uint64_t{1}, std::uint64_t{0}));
    EXPECT_EQ(messages(17'000), std::pair(std::uint64_t{0}, std::uint64_t{1}));
  });
}

// No task waits for the copy of a rank's own block, so the copy must not delay the transfers.
TEST(Collectives, LongOwnBlockIsCopiedDuringTheTransfers) {
  on_ranks(3, [](Communicator& communicator) {
    const auto copies = [&](const char* algorithm, std::size_t block, bool in_place) {
      const auto* entry = collectives::find_algorithm(Collective::allgather, algorithm).value();
      const std::uint64_t before = counters_of(communicator).at("copies_overlapped");
      Trial(communicator, *entry, block, 0, in_place).run();
      return counters_of(communicator).at("copies_overlapped") - before;
    };
    EXPECT_EQ(copies("ring", 64 * 1024, false), 0u) << "a block of one slice is copied at once";
    EXPECT_EQ(copies("ring", 64 * 1024 + 1, false), 1u);
    EXPECT_EQ(copies("ring", 1'000'003, false), 1u);
    EXPECT_EQ(copies("ring", 1'000'003, true), 0u) << "a block in place needs no copy";
    // The first copy of Bruck's algorithm must end before the copied block is sent, so only the
    // copies at the end overlap with transfers.
    const std::uint64_t in_order = index(communicator.rank()) == 0 ? 1 : 2;
    EXPECT_EQ(copies("bruck", 1'000'003, false), in_order)
        << "the copies that put the blocks in order are overlapped";
  });
}

// An occasional ready barrier stops a root that runs ahead of late ranks.
TEST(Collectives, FastRootDoesNotOverrunALateRank) {
  on_ranks(3, [](Communicator& communicator) {
    const auto* entry = collectives::find_algorithm(Collective::broadcast, "binomial").value();
    std::vector<Bytes> buffers(3000, pattern(8'000, 5));
    std::vector<Request> requests;
    if (index(communicator.rank()) == 2) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (Bytes& buffer : buffers) {
      if (index(communicator.rank()) != 0) std::fill(buffer.begin(), buffer.end(), std::byte{0});
      auto request = communicator.broadcast(buffer, Rank{0}, {.algorithm = entry->name});
      ASSERT_TRUE(request.ok());
      requests.push_back(std::move(*request));
    }
    for (Request& request : requests) ASSERT_TRUE(request.wait().ok());
    for (const Bytes& buffer : buffers) ASSERT_EQ(buffer, pattern(8'000, 5));
    const Counters counters = counters_of(communicator);
    EXPECT_GE(counters.at("ready_by_barrier"), 3000u * 8'000u / (5u << 20));
    EXPECT_EQ(counters.at("messages_rejected"), 0u);
  });
}

// A late root stores the messages that several ranks send for calls that the root has not made yet.
// Ready barriers keep the stored messages below the limit at which the communicator fails.
TEST(Collectives, ReducesAheadOfALateRoot_areStoppedByReadyBarriers) {
  constexpr std::size_t kCalls = 300;
  for (const char* algorithm : {"binomial_ordered", "linear_keyed"}) {
    on_ranks(8, [algorithm](Communicator& communicator) {
      const bool root = index(communicator.rank()) == 0;
      std::vector<std::int32_t> own(4'000, 1 + static_cast<int>(index(communicator.rank())));
      std::vector<std::int32_t> sum(4'000);
      if (root) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      for (std::size_t call = 0; call < kCalls; ++call) {
        auto request = communicator.reduce(
            std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(sum)), Rank{0},
            {.type = DataType::int32}, {.algorithm = algorithm, .will_wait = true});
        ASSERT_TRUE(request.ok());
        const Status status = request->wait();
        ASSERT_TRUE(status.ok()) << algorithm << ": " << status.to_string();
        if (root) {
          ASSERT_EQ(sum, std::vector<std::int32_t>(4'000, 36));
        }
      }
      EXPECT_GE(counters_of(communicator).at("ready_by_barrier"), kCalls * 16'000 * 3 / (4u << 20));
    });
  }
}

// A rank waits only for its own part of a call. The root may therefore be thousands of calls ahead
// of the ranks that forward its messages.
TEST(Collectives, ShortBroadcastsBackToBackComplete) {
  on_ranks(4, [](Communicator& communicator) {
    for (std::uint32_t call = 0; call < 10'000; ++call) {
      std::uint32_t value = index(communicator.rank()) == 0 ? call : ~call;
      auto request = communicator.broadcast(std::as_writable_bytes(std::span(&value, 1)), Rank{0},
                                            {.algorithm = "binomial", .will_wait = true});
      ASSERT_TRUE(request.ok());
      const Status status = request->wait();
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_EQ(value, call);
    }
    EXPECT_EQ(counters_of(communicator).at("messages_rejected"), 0u);
  });
}

// The chunks of the next collective often arrive in one batch with the last chunks of the previous
// one. They must be placed directly, instead of being kept as unexpected chunks and copied later.
TEST(Collectives, ChunksOfAQueuedCollective_arePlacedDirectly) {
  std::barrier queued(3);
  on_ranks(3, [&queued](Communicator& communicator) {
    const bool root = index(communicator.rank()) == 0;
    const auto early = counters_of(communicator).at("chunks_unexpected");
    if (root) queued.arrive_and_wait();
    // All blocks together fit into the credit window, so that no call begins with a ready barrier.
    std::vector<Bytes> buffers(80, root ? pattern(2'000, 0) : Bytes(2'000));
    std::vector<Request> requests;
    for (Bytes& buffer : buffers) {
      auto request = communicator.broadcast(buffer, Rank{0}, {.algorithm = Algorithm::multicast});
      ASSERT_TRUE(request.ok());
      requests.push_back(std::move(*request));
    }
    if (!root) {
      // The root must not send before the engine of this rank has taken all calls. This wait polls
      // the engine, which then takes the calls.
      const Status pending = requests.back().wait_for(std::chrono::milliseconds(1));
      EXPECT_EQ(pending.code(), Code::timeout) << pending.to_string();
      queued.arrive_and_wait();
    }
    for (Request& request : requests) ASSERT_TRUE(request.wait_for(kLong).ok());
    for (const Bytes& buffer : buffers) ASSERT_EQ(buffer, pattern(2'000, 0));
    EXPECT_EQ(counters_of(communicator).at("chunks_unexpected"), early);
    EXPECT_GT(counters_of(communicator).at(root ? "chunks_sent" : "chunks_received"), 0u);
  });
}

// Rank 0 sends rank 1, which does not poll yet, more messages than the send queue holds. The
// messages of the ready barrier wait behind these messages and must not be lost.
TEST(Collectives, ProtocolMessagesBehindAFullSendQueue_areNotLost) {
  on_ranks(2, [](Communicator& communicator) {
    if (index(communicator.rank()) == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::vector<Bytes> buffers(6000, Bytes(8, std::byte{7}));
    std::vector<Request> requests;
    for (Bytes& buffer : buffers) {
      auto request = communicator.broadcast(buffer, Rank{0}, {.algorithm = "binomial"});
      ASSERT_TRUE(request.ok());
      requests.push_back(std::move(*request));
    }
    Bytes all(2 * 70'001);
    finish(communicator.allgather(pattern(70'001, index(communicator.rank())), all,
                                  {.algorithm = Algorithm::multicast}));
    for (Request& request : requests) ASSERT_TRUE(request.wait_for(kLong).ok());
    expect_blocks(all, 70'001, 2);
  });
}

TEST(Collectives, AverageAndPremultipliedSum_haveTheResultsOfTheReducer) {
  on_ranks(5, [](Communicator& communicator) {
    constexpr std::size_t kCount = 7'001;
    const std::uint32_t me = index(communicator.rank());
    const auto contribution = [](std::uint32_t rank) {
      std::vector<float> values(kCount);
      for (std::size_t i = 0; i < kCount; ++i)
        values[i] = static_cast<float>(draw(rank, i) % 1000) / 8;
      return values;
    };
    for (const ReduceOperation operation :
         {ReduceOperation::average, ReduceOperation::premultiplied_sum}) {
      const auto factor = [](std::uint32_t rank) { return 0.5f * static_cast<float>(rank + 1); };
      std::vector<std::vector<float>> all;
      std::vector<const std::byte*> operands;
      std::vector<float> factors;
      for (std::uint32_t r = 0; r < communicator.size(); ++r) {
        all.push_back(contribution(r));
        factors.push_back(factor(r));
      }
      for (auto& one : all) operands.push_back(reinterpret_cast<const std::byte*>(one.data()));
      std::vector<float> wanted(kCount);
      const auto reducer = reduction::Reducer::create(operation, DataType::float32).value();
      reducer.reduce(reinterpret_cast<std::byte*>(wanted.data()), operands, kCount,
                     reinterpret_cast<const std::byte*>(factors.data()));

      Reduction reduction{.type = DataType::float32, .operation = operation};
      const float mine = factor(me);
      std::memcpy(reduction.factor.data(), &mine, sizeof mine);
      for (const bool in_place : {false, true}) {
        std::vector<float> own = contribution(me);
        std::vector<float> result = in_place ? own : std::vector<float>(kCount);
        // This algorithm combines the operands in rank order, as the reducer did for `wanted`. The
        // bits must therefore be equal.
        auto request = communicator.reduce(
            std::as_bytes(std::span(in_place && me == 0 ? result : own)),
            me == 0 ? std::as_writable_bytes(std::span(result)) : std::span<std::byte>(), Rank{0},
            reduction, {.algorithm = "linear_keyed"});
        ASSERT_TRUE(request.ok()) << request.status().to_string();
        ASSERT_TRUE(request->wait().ok());
        if (me == 0) {
          EXPECT_EQ(result, wanted) << to_string(operation) << in_place;
        }
        if (!in_place) {
          EXPECT_EQ(own, contribution(me)) << "the caller's data must not change";
        }
      }
    }
  });
}

Reduction halved(DataType type) {
  Reduction reduction{.type = type, .operation = ReduceOperation::premultiplied_sum};
  const float factor = 0.5f;
  std::memcpy(reduction.factor.data(), &factor, sizeof factor);
  return reduction;
}

TEST(Collectives, PremultipliedReduceScatterInPlace_changesOnlyTheOwnBlock) {
  on_ranks(3, [](Communicator& communicator) {
    constexpr std::size_t kCount = 1'000;
    const std::uint32_t me = index(communicator.rank());
    std::vector<float> all(3 * kCount, static_cast<float>(me + 1));
    const std::span<float> own = std::span(all).subspan(me * kCount, kCount);
    finish(communicator.reduce_scatter(std::as_bytes(std::span(all)), std::as_writable_bytes(own),
                                       halved(DataType::float32)));
    for (std::size_t i = 0; i < all.size(); ++i)
      ASSERT_EQ(all[i], i / kCount == me ? 3.0f : static_cast<float>(me + 1)) << i;
  });
}

TEST(Collectives, PremultipliedReduceScatterv_scalesBlocksAtAnyOffset) {
  on_ranks(3, [](Communicator& communicator) {
    const std::uint32_t me = index(communicator.rank());
    const std::array<std::uint64_t, 3> sizes = {8, 12, 4};
    const std::array<std::uint64_t, 3> offsets = {2, 13, 27};
    const std::vector<float> values(3, static_cast<float>(me + 1));
    Bytes all(40, std::byte{0x7f});
    for (std::size_t r = 0; r < 3; ++r) std::memcpy(&all[offsets[r]], values.data(), sizes[r]);
    const Bytes before = all;
    for (const bool in_place : {false, true}) {
      Bytes apart(sizes[me]);
      const std::span<std::byte> own =
          in_place ? std::span(all).subspan(offsets[me], sizes[me]) : std::span(apart);
      finish(communicator.reduce_scatterv(all, sizes, offsets, own, halved(DataType::float32)));
      std::vector<float> found(sizes[me] / sizeof(float));
      std::memcpy(found.data(), own.data(), own.size());
      EXPECT_EQ(found, std::vector<float>(found.size(), 3.0f)) << in_place;
      std::copy(before.begin() + offsets[me], before.begin() + offsets[me] + sizes[me],
                all.begin() + offsets[me]);
      EXPECT_EQ(all, before) << "only this rank's block may change" << in_place;
    }
  });
}

// The other ranks need no data from the rank with the empty block, so the end of their call does
// not prove that the rank with the empty block has begun the call.
TEST(Collectives, RankWithTheEmptyBlockOfAnAllgatherv_isNotOverrun) {
  on_ranks(3, [](Communicator& communicator) {
    const std::uint32_t me = index(communicator.rank());
    constexpr std::uint64_t kBytes = 64 * 1024;
    const std::array<std::uint64_t, 3> sizes = {kBytes, kBytes, 0};
    const std::array<std::uint64_t, 3> offsets = {0, kBytes, 2 * kBytes};
    if (me == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    for (std::uint64_t call = 0; call < 150; ++call) {
      const Bytes own = pattern(sizes[me], 2 * call + me);
      Bytes all(2 * kBytes);
      finish(
          communicator.allgatherv(own, all, sizes, offsets, {.algorithm = Algorithm::multicast}));
      for (std::uint64_t r = 0; r < 2; ++r) {
        const Bytes expected = pattern(kBytes, 2 * call + r);
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(), all.begin() + r * kBytes));
      }
    }
  });
}

TEST(Collectives, PreparedCallRunsRepeatedly) {
  on_ranks(4, [](Communicator& communicator) {
    std::vector<std::uint32_t> values(100);
    auto prepared = communicator.prepare({.collective = Collective::allreduce,
                                          .send = std::as_bytes(std::span(values)),
                                          .receive = std::as_writable_bytes(std::span(values)),
                                          .reduction = {.type = DataType::uint32}});
    ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
    std::fill(values.begin(), values.end(), 1);
    std::uint32_t wanted = 1;
    for (int i = 0; i < 10; ++i) {
      auto request = prepared->start();
      ASSERT_TRUE(request.ok()) << request.status().to_string();
      ASSERT_TRUE(request->wait().ok());
      wanted *= communicator.size();
      ASSERT_TRUE(std::all_of(values.begin(), values.end(),
                              [&](std::uint32_t value) { return value == wanted; }));
    }
  });
}

/// The outcome of a call at each of two ranks.
std::vector<std::string> said_by_two(
    const std::function<std::string(Communicator&, std::uint32_t rank)>& call,
    const CommunicatorOptions& options = patient()) {
  auto bootstraps = runtime::make_local_bootstraps(2);
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto communicator = runtime::create_communicator(*bootstraps[rank], options);
      ASSERT_TRUE(communicator.ok()) << communicator.status().to_string();
      said[rank] = call(*communicator, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

std::string outcome_of(Result<Request> request) {
  return request ? request->wait_for(kLong).to_string() : request.status().to_string();
}

void expect_both_heard(const std::vector<std::string>& said) {
  EXPECT_NE((said[0] + said[1]).find("all ranks"), std::string::npos) << said[0] << "\n" << said[1];
  for (const std::string& one : said) EXPECT_EQ(one.find("timeout"), std::string::npos) << one;
}

TEST(Collectives, DifferentAlgorithmsAtTwoRanks_failAtBoth) {
  for (const auto& [first, second] : {std::pair("multicast", "ring"), {"ring", "multicast"}}) {
    const auto said = said_by_two(
        [&, one = first, other = second](Communicator& communicator, std::uint32_t rank) {
          const Bytes own(1'000);
          Bytes all(2'000);
          return outcome_of(communicator.allgather(
              own, all, {.algorithm = rank == 0 ? one : other, .will_wait = true}));
        });
    expect_both_heard(said);
    for (const std::string& one : said) EXPECT_NE(one, "ok");
  }
}

TEST(Collectives, MulticastWithDifferentSizesAtTwoRanks_failsAtTheReceiver) {
  constexpr std::size_t kPlace = 100'000;
  struct Case {
    Collective collective;
    /// Block sizes that each rank passes to its call, indexed by rank.
    std::vector<std::uint64_t> sizes[2];
  };
  const std::vector<Case> cases = {
      {Collective::allgather, {{50'000, 50'000}, {60'000, 60'000}}},
      {Collective::allgatherv, {{50'000, 60'000}, {50'000, 50'000}}},
      {Collective::allgatherv, {{0, 60'000}, {50'000, 60'000}}},
      {Collective::broadcast, {{70'000, 0}, {80'000, 0}}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(to_string(one.collective));
    const auto said = said_by_two([&](Communicator& communicator, std::uint32_t rank) {
      const std::vector<std::uint64_t>& sizes = one.sizes[rank];
      const std::vector<std::uint64_t> offsets{0, kPlace};
      const Bytes own(sizes[rank]);
      Bytes all(2 * kPlace);
      CollectiveCall call{.collective = one.collective,
                          .send = own,
                          .receive = all,
                          .options = {.algorithm = Algorithm::multicast, .will_wait = true}};
      if (one.collective == Collective::broadcast) call.send = {};
      if (one.collective == Collective::allgatherv) {
        call.sizes_bytes = sizes;
        call.offsets_bytes = offsets;
      } else {
        call.receive = std::span(all).first(sizes[0] + sizes[1]);
      }
      return outcome_of(communicator.start(call));
    });
    expect_both_heard(said);
    // A rank that gets all the data that it expects may complete its call before the other rank
    // fails.
    for (const std::size_t rank : {0, 1}) {
      const std::size_t other = 1 - rank;
      if (one.sizes[rank][other] != one.sizes[other][other]) {
        EXPECT_NE(said[rank], "ok") << "rank " << rank;
      }
    }
  }
}

/// Runs a call with blocks of `sizes[rank]` bytes, of which one at least is too long to be sent
/// eagerly. Expects that each rank fails that waits for the other, and that an error names both
/// sizes.
void expect_sizes_differ(Collective collective, Algorithm algorithm,
                         const std::array<std::size_t, 2>& sizes) {
  constexpr std::size_t kEagerLimit = 16 * 1024;
  SCOPED_TRACE(fmt::format("{} of {} and {} bytes", to_string(collective), sizes[0], sizes[1]));
  const bool gathers = collective == Collective::gather;
  const auto said = said_by_two([&](Communicator& communicator, std::uint32_t rank) {
    const Bytes own((gathers ? 1 : 2) * sizes[rank]);
    Bytes all(gathers && rank == 1 ? 0 : 2 * sizes[rank]);
    return outcome_of(communicator.start({.collective = collective,
                                          .send = own,
                                          .receive = all,
                                          .root = rank_of(0),
                                          .options = {.algorithm = algorithm}}));
  });
  expect_both_heard(said);
  EXPECT_NE(said[0], "ok");
  // A rank that sends eagerly and receives nothing may complete its call before the other fails.
  if (!gathers || sizes[1] > kEagerLimit) {
    EXPECT_NE(said[1], "ok");
  }
  // The name of a rank contains its host.
  const auto named = [&](std::size_t sender) {
    const std::string sends =
        fmt::format(" sends {} bytes, but rank {}", sizes[sender], 1 - sender);
    const std::string expects = fmt::format(" expects {})", sizes[1 - sender]);
    return std::any_of(said.begin(), said.end(), [&](const std::string& one) {
      return one.find(sends) != std::string::npos && one.find(expects) != std::string::npos;
    });
  };
  EXPECT_TRUE(named(1) || (!gathers && named(0))) << said[0] << "\n" << said[1];
}

TEST(Collectives, LongBlocksOfDifferentSizesAtTwoRanks_failAtBoth) {
  for (const auto& sizes : {std::array<std::size_t, 2>{200'000, 100'000}, {200'000, 300'000}}) {
    expect_sizes_differ(Collective::gather, Algorithm::automatic, sizes);
    expect_sizes_differ(Collective::alltoall, Algorithm::automatic, sizes);
  }
}

TEST(Collectives, BlocksOnBothSidesOfTheEagerLimit_failAtBoth) {
  for (const auto& sizes : {std::array<std::size_t, 2>{10'000, 20'000}, {20'000, 10'000}}) {
    expect_sizes_differ(Collective::gather, "binomial", sizes);
    expect_sizes_differ(Collective::alltoall, "linear", sizes);
  }
}

TEST(Collectives, GatherThatOnlyTheRootCarriesOutByASchedule_fails) {
  // A block of 1 KiB goes through a slot, and the other rank's call then ends.
  const auto said = said_by_two([&](Communicator& communicator, std::uint32_t rank) {
    const std::size_t bytes = rank == 0 ? 100'000 : 1024;
    const Bytes own(bytes);
    Bytes all(rank == 0 ? 2 * bytes : 0);
    return outcome_of(
        communicator.start({.collective = Collective::gather, .send = own, .receive = all}));
  });
  EXPECT_EQ(said[1], "ok");
  EXPECT_NE(said[0], "ok");
  EXPECT_EQ(said[0].find("timeout"), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("rank 1"), std::string::npos) << said[0];
}

// The ended rank asks for the slot entry of the late root over their connection, so that it may
// also get entries of ended calls.
TEST(Collectives, GatherThatOnlyALateRootCarriesOutByASchedule_fails) {
  const auto said = said_by_two([](Communicator& communicator, std::uint32_t rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::size_t bytes = rank == 0 ? 100'000 : 1024;
    const Bytes own(bytes);
    Bytes all(rank == 0 ? 2 * bytes : 0);
    const std::string gathered = outcome_of(
        communicator.start({.collective = Collective::gather, .send = own, .receive = all}));
    return rank == 0 ? gathered : outcome_of(communicator.barrier());
  });
  expect_both_heard(said);
  for (const std::string& one : said) EXPECT_NE(one, "ok");
}

TEST(Collectives, ReadyBarrierOfOnlyOneRank_fails) {
  CommunicatorOptions options = patient();
  options.always_barrier = true;
  for (const Collective collective : {Collective::broadcast, Collective::allgather}) {
    SCOPED_TRACE(to_string(collective));
    const auto said = said_by_two(
        [collective](Communicator& communicator, std::uint32_t rank) {
          // A block of 1 KiB goes through a slot, without a ready barrier.
          Bytes own(rank == 0 ? 1'024 : 100'000);
          Bytes all(2 * own.size());
          return outcome_of(collective == Collective::broadcast
                                ? communicator.broadcast(own, Rank{0})
                                : communicator.allgather(own, all));
        },
        options);
    EXPECT_NE(said[1], "ok");
    for (const std::string& one : said) EXPECT_EQ(one.find("timeout"), std::string::npos) << one;
  }
}

TEST(Collectives, AlltoallvInPlace_sendsTheOriginalContentOfTheBuffer) {
  on_ranks(3, [](Communicator& communicator) {
    const std::uint32_t me = index(communicator.rank());
    // Rank r sends r + 1 bytes to each rank. In the send buffer, the blocks lie in reverse order of
    // their destinations.
    const std::vector<std::uint64_t> sent(3, me + 1), sent_at{8, 4, 0};
    const std::vector<std::uint64_t> sizes{1, 2, 3}, offsets{0, 1, 3};
    Bytes buffer(12);
    for (std::uint32_t r = 0; r < 3; ++r)
      std::fill_n(buffer.begin() + sent_at[r], me + 1, static_cast<std::byte>(16 * (me + 1) + r));
    Bytes wanted = buffer;
    for (std::uint32_t r = 0; r < 3; ++r)
      std::fill_n(wanted.begin() + offsets[r], sizes[r], static_cast<std::byte>(16 * (r + 1) + me));
    finish(communicator.alltoallv(buffer, sent, sent_at, buffer, sizes, offsets));
    EXPECT_EQ(buffer, wanted);
  });
}

TEST(Collectives, ArraysThatACallDoesNotUse_areIgnored) {
  on_ranks(2, [](Communicator& communicator) {
    const std::uint32_t me = index(communicator.rank());
    const Bytes own = pattern(8, me);
    Bytes all(16);
    Bytes expected = pattern(8, 0);
    const Bytes other = pattern(8, 1);
    expected.insert(expected.end(), other.begin(), other.end());
    const std::array<std::uint64_t, 2> sizes{8, 8}, offsets{0, 8};
    // As sizes and offsets in the send buffer, these arrays name the wrong half of the own block.
    const std::array<std::uint64_t, 2> halves{4, 4}, at{4, 4};
    CollectiveCall call{.collective = Collective::allgatherv,
                        .send = own,
                        .receive = all,
                        .sizes_bytes = sizes,
                        .offsets_bytes = offsets,
                        .send_sizes_bytes = halves,
                        .send_offsets_bytes = at,
                        .options = {.algorithm = Algorithm::ring}};
    finish(communicator.start(call));
    EXPECT_EQ(all, expected);
    std::fill(all.begin(), all.end(), std::byte{0});
    call.collective = Collective::gatherv;
    call.options = {};
    finish(communicator.start(call));
    EXPECT_EQ(all, me == 0 ? expected : Bytes(16));
  });
}

TEST(Collectives, ImpossibleCalls_areRefusedWithTheReason) {
  on_ranks(2, [](Communicator& communicator) {
    Bytes large(100);
    Bytes small(33);
    const auto refusal = [](const Result<Request>& request) {
      EXPECT_EQ(request.status().code(), Code::invalid_argument);
      return request.status().message();
    };
    const auto has = [](const std::string& text, const char* part) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    has(refusal(communicator.allgather(small, large, {.algorithm = "smoke"})), "66");
    has(refusal(communicator.allgather(std::span(large).subspan(25, 50), large)), "overlap");
    Bytes own(50);
    has(refusal(communicator.allgather(own, large, {.algorithm = "smoke"})), "neighbour_exchange");
    has(refusal(communicator.broadcast(large, rank_of(2))), "root 2");
    has(refusal(communicator.allreduce(small, std::span(large).first(33), {})), "float32");
    has(refusal(communicator.alltoall(std::span(large).first(80), std::span(large).subspan(1, 80))),
        "overlap");
    Bytes other(100);
    const auto meaningless =
        communicator.allreduce(large, other, {DataType::float32, ReduceOperation::bit_or});
    EXPECT_EQ(meaningless.status().code(), Code::unsupported);
    has(meaningless.status().message(), "float32");
    const auto reduce = [&](Reduction by) { return communicator.allreduce(large, other, by); };
    has(refusal(reduce({.type = static_cast<DataType>(12)})), "no element type has the number 12");
    has(refusal(reduce({.operation = static_cast<ReduceOperation>(9)})),
        "operation has the number");
    const std::vector<std::uint64_t> sizes{10, 10};
    const std::vector<std::uint64_t> offsets{0, 95};
    has(refusal(communicator.allgatherv(std::span(own).first(10), large, sizes, offsets)), "95");
  });
}

TEST(Collectives, CollectiveThatDoesNotExist_isRefusedByEveryFunctionThatTakesACall) {
  on_ranks(1, [](Communicator& communicator) {
    std::array<CollectiveCall, 1> calls;
    calls[0].collective = static_cast<Collective>(kCollectives);
    std::array<Request, 1> requests;
    for (const Status& refused :
         {communicator.start(calls[0]).status(), communicator.prepare(calls[0]).status(),
          communicator.algorithm_of(calls[0]).status(), start_all(communicator, calls, requests)}) {
      EXPECT_EQ(refused.code(), Code::invalid_argument);
      EXPECT_NE(refused.message().find("no collective has the number 14"), std::string::npos)
          << refused.to_string();
    }
    finish(communicator.barrier());
  });
}

}  // namespace
}  // namespace tutti
