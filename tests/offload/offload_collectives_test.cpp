#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collective_reference.hpp"
#include "unit_network.hpp"

namespace tutti::trigger {
namespace {

using reduction::ElementType;
using reduction::Operation;

/// One collective over all ranks of a network, with its buffers and the content that they must have
/// at the end.
class JobRun {
 public:
  struct What {
    CollectiveKind kind = CollectiveKind::allreduce;
    Operation operation = Operation::sum;
    ElementType type = ElementType::float32;
    std::uint32_t elements = 1;
    std::uint32_t root = 0;
    std::uint32_t job = 1;
    std::uint32_t segment_elements = 16;
    std::uint32_t port = 0;
  };

  JobRun(UnitNetwork& network, const What& what) : network_(network), what_(what) {
    for (std::uint32_t rank = 0; rank < network.ranks(); ++rank) {
      inputs_.push_back(contribution(what.type, what.elements, what.job * 1000 + rank));
      outputs_.emplace_back(inputs_[rank].size(), std::byte{0xee});
    }
    if (what.kind == CollectiveKind::broadcast) outputs_[what.root] = inputs_[what.root];
  }

  void start() {
    for (std::uint32_t rank = 0; rank < network_.ranks(); ++rank) start(rank);
  }
  void start(std::uint32_t rank) {
    CollectiveCall call;
    call.kind = what_.kind;
    call.nodes = network_.nodes();
    call.rank = rank;
    call.root = what_.root;
    call.job = job();
    call.port = static_cast<Port>(what_.port);
    call.elements = what_.elements;
    call.operation = what_.operation;
    call.type = what_.type;
    call.input = network_.bank(rank).add_memory(job(), inputs_[rank]).value();
    call.output = network_.bank(rank).add_memory(job(), outputs_[rank]).value();
    network_.start(rank, call, what_.segment_elements);
  }

  void expect_right(const std::string& where) {
    const bool rooted =
        what_.kind == CollectiveKind::reduce || what_.kind == CollectiveKind::reduce_flat;
    const Bytes expected = what_.kind == CollectiveKind::broadcast
                               ? inputs_[what_.root]
                               : reference_result(what_.kind, what_.operation, what_.type, inputs_);
    for (std::uint32_t rank = 0; rank < network_.ranks(); ++rank) {
      const PulsedCollective* call = network_.call(rank, job());
      ASSERT_NE(call, nullptr);
      ASSERT_TRUE(call->done() && call->status().ok())
          << where << ": " << call->status().to_string();
      if ((rooted && rank != what_.root) || what_.kind == CollectiveKind::barrier) continue;
      ASSERT_EQ(outputs_[rank], expected) << where << ", rank " << rank;
    }
  }
  JobId job() const { return static_cast<JobId>(what_.job); }
  Bytes& output(std::uint32_t rank) { return outputs_[rank]; }

 private:
  UnitNetwork& network_;
  What what_;
  std::vector<Bytes> inputs_;
  std::vector<Bytes> outputs_;
};

/// Settings of small nodes, so that even a short call needs several segments, credit batches and
/// trigger units.
UnitNetwork::Settings small(std::uint32_t ranks, std::uint32_t slots = 64) {
  UnitNetwork::Settings settings;
  settings.ranks = ranks;
  settings.bank.units = 4;
  settings.bank.ports = 64;
  settings.bank.unit = {
      .buffer_bytes = slots * 128, .slot_bytes = 128, .sequences = 16, .outbox_packets = 8};
  settings.credits = {.capacity_elements = 128, .pulses = 4, .window = 4};
  return settings;
}

std::string name_of(const JobRun::What& what, std::uint32_t ranks) {
  return std::string(to_string(what.kind)) + " " + to_string(what.operation) + " of " +
         std::to_string(what.elements) + " " + to_string(what.type) + ", " + std::to_string(ranks) +
         " ranks, root " + std::to_string(what.root);
}

void run_alone(UnitNetwork& network, const JobRun::What& what) {
  const std::string name = name_of(what, network.ranks());
  JobRun run(network, what);
  run.start();
  ASSERT_TRUE(network.run()) << name << ": the collective has not ended and no step is possible";
  run.expect_right(name);
  network.expect_no_overrun();
  network.finish();
}

constexpr CollectiveKind kAllKinds[] = {CollectiveKind::barrier, CollectiveKind::broadcast,
                                        CollectiveKind::reduce, CollectiveKind::reduce_flat,
                                        CollectiveKind::allreduce};

TEST(OffloadCollectives, Result_isRightForEveryCollectiveAndSize_upToSixteenRanks) {
  struct Pair {
    Operation operation;
    ElementType type;
  };
  constexpr Pair kPairs[] = {
      {Operation::sum, ElementType::float32},     {Operation::sum, ElementType::bfloat16},
      {Operation::average, ElementType::float64}, {Operation::prod, ElementType::float16},
      {Operation::average, ElementType::int32},   {Operation::max, ElementType::float32},
      {Operation::bit_xor, ElementType::uint8}};
  std::uint64_t seed = 0;
  for (std::uint32_t ranks = 1; ranks <= 16; ++ranks) {
    UnitNetwork network(small(ranks), ranks);
    for (const CollectiveKind kind : kAllKinds) {
      for (const std::uint32_t elements : {1u, 7u, 37u, 301u}) {
        const Pair& pair = kPairs[++seed % std::size(kPairs)];
        network.reseed(seed);
        run_alone(network, {.kind = kind,
                            .operation = pair.operation,
                            .type = pair.type,
                            .elements = elements,
                            .root = static_cast<std::uint32_t>(seed * 5 % ranks)});
        if (HasFatalFailure()) FAIL() << "seed " << seed;
      }
    }
  }
}

TEST(OffloadCollectives, ResultIsRightForEveryOperationAndType) {
  UnitNetwork network(small(5), 1);
  for (std::size_t o = 0; o < reduction::kOperations; ++o) {
    for (std::size_t t = 0; t < reduction::kElementTypes; ++t) {
      const auto operation = static_cast<Operation>(o);
      const auto type = static_cast<ElementType>(t);
      if (!is_supported(operation, type)) continue;
      for (const CollectiveKind kind : {CollectiveKind::reduce_flat, CollectiveKind::allreduce}) {
        run_alone(network,
                  {.kind = kind, .operation = operation, .type = type, .elements = 51, .root = 3});
        if (HasFatalFailure()) FAIL();
      }
    }
  }
}

TEST(OffloadCollectives, Result_isRightForEveryRoot_ifTheNumberOfRanksIsNoPowerOfTwo) {
  for (const std::uint32_t ranks : {6u, 7u, 11u}) {
    UnitNetwork network(small(ranks), ranks);
    for (std::uint32_t root = 0; root < ranks; ++root) {
      for (const CollectiveKind kind :
           {CollectiveKind::broadcast, CollectiveKind::reduce, CollectiveKind::reduce_flat}) {
        run_alone(network, {.kind = kind, .elements = 45, .root = root});
        if (HasFatalFailure()) FAIL();
      }
    }
  }
}

TEST(OffloadCollectives, Result_isRightForSomeCollectivesAndSizes_upToSixtyFourRanks) {
  for (const std::uint32_t ranks : {17u, 24u, 31u, 32u, 33u, 48u, 63u, 64u}) {
    UnitNetwork network(small(ranks), ranks);
    for (const CollectiveKind kind : {CollectiveKind::barrier, CollectiveKind::broadcast,
                                      CollectiveKind::reduce, CollectiveKind::allreduce}) {
      run_alone(network, {.kind = kind, .elements = 70, .root = ranks / 3});
      if (HasFatalFailure()) FAIL();
    }
  }
}

TEST(OffloadCollectives, ResultHasTheSameBitsForAThousandOrdersOfArrival) {
  struct Shape {
    CollectiveKind kind;
    std::uint32_t ranks;
    ElementType type;
  };
  for (const Shape& shape : {Shape{CollectiveKind::allreduce, 8, ElementType::float32},
                             Shape{CollectiveKind::reduce, 7, ElementType::bfloat16},
                             Shape{CollectiveKind::reduce_flat, 13, ElementType::float32},
                             Shape{CollectiveKind::broadcast, 9, ElementType::float32}}) {
    UnitNetwork network(small(shape.ranks), 0);
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
      network.reseed(seed);
      run_alone(network, {.kind = shape.kind,
                          .type = shape.type,
                          .elements = 33,
                          .root = shape.ranks / 2,
                          .job = 1});
      if (HasFatalFailure()) FAIL() << "seed " << seed;
    }
  }
}

TEST(OffloadCollectives, FullBuffer_pushesPacketsBack_andLosesNone) {
  std::uint64_t pushed_back = 0;
  std::uint64_t stalled = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    // Each trigger unit has only two slots for the packets of up to 15 peers, and one entry in its
    // outbox.
    UnitNetwork::Settings settings = small(16, 2);
    settings.bank.units = 2;
    settings.bank.unit.outbox_packets = 1;
    settings.bank.unit.sequences = 4;
    UnitNetwork network(settings, seed);
    for (const CollectiveKind kind : kAllKinds) {
      run_alone(network, {.kind = kind, .elements = 130, .root = 15});
      if (HasFatalFailure()) FAIL() << "seed " << seed;
    }
    pushed_back += network.pushed_back();
    stalled += network.stalled();
  }
  EXPECT_GT(pushed_back, 1000u) << "the test does not fill the hash buffers";
  EXPECT_GT(stalled, 1000u) << "the test does not fill the outboxes";
}

TEST(OffloadCollectives, ResultsOfThirtyTwoConcurrentJobsAreRight) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    UnitNetwork::Settings settings = small(6, 128);
    settings.bank.units = 8;
    settings.credits = {
        .capacity_elements = 32 * 64, .pulses = 64, .window = 2, .requests = 32, .counters = 64};
    UnitNetwork network(settings, seed);
    std::vector<JobRun> runs;
    for (std::uint32_t job = 0; job < 32; ++job) {
      runs.emplace_back(network, JobRun::What{.kind = kAllKinds[job % std::size(kAllKinds)],
                                              .elements = 40 + 11 * job,
                                              .root = job % 6,
                                              .job = 200 + job % 56});
    }
    // Each rank begins the jobs in a different order.
    for (std::uint32_t rank = 0; rank < network.ranks(); ++rank) {
      for (std::size_t i = 0; i < runs.size(); ++i) {
        runs[(i * 5 + rank * 7) % runs.size()].start(rank);
      }
    }
    ASSERT_TRUE(network.run()) << "seed " << seed;
    for (std::size_t i = 0; i < runs.size(); ++i) runs[i].expect_right("job " + std::to_string(i));
    network.expect_no_overrun();
    for (std::uint32_t rank = 0; rank < network.ranks(); ++rank) {
      EXPECT_EQ(network.bank(rank).directory().jobs_high_water(), 32u);
      for (std::uint32_t u = 0; u < 8; ++u) {
        EXPECT_GT(network.bank(rank).unit(u).counters().sequences, 20u) << "unit " << u;
      }
    }
    network.finish();
  }
}

TEST(OffloadCollectives, Barrier_beforeTheLastRankEnters_completesAtNoRank) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    UnitNetwork network(small(9), seed);
    JobRun barrier(network, {.kind = CollectiveKind::barrier});
    const auto late = static_cast<std::uint32_t>(seed % 9);
    for (std::uint32_t rank = 0; rank < 9; ++rank) {
      if (rank != late) barrier.start(rank);
    }
    EXPECT_FALSE(network.run()) << "they wait";
    for (std::uint32_t rank = 0; rank < 9; ++rank) {
      if (rank == late) continue;
      EXPECT_FALSE(network.call(rank, barrier.job())->done()) << "rank " << rank;
    }
    barrier.start(late);
    EXPECT_TRUE(network.run());
    network.finish();
  }
}

TEST(OffloadCollectives, JobThatTimesOutDoesNotAffectOtherJobs) {
  UnitNetwork::Settings settings = small(4);
  settings.bank.unit.wait_limit = Nanoseconds(1000);
  settings.credits.requests = 4;
  UnitNetwork network(settings, 3);
  JobRun victim(network, {.kind = CollectiveKind::allreduce, .elements = 200, .job = 1});
  JobRun other(network, {.kind = CollectiveKind::allreduce, .elements = 100, .job = 2});
  JobRun third(network, {.kind = CollectiveKind::reduce, .elements = 100, .root = 2, .job = 3});
  // Rank 3 never starts the collective of the job `victim`.
  for (std::uint32_t rank = 0; rank < 3; ++rank) victim.start(rank);
  other.start();
  third.start();
  EXPECT_FALSE(network.run()) << "the victim's collective must not end without rank 3";
  other.expect_right("beside a job that hangs");
  third.expect_right("beside a job that hangs");
  EXPECT_FALSE(network.call(0, victim.job())->done());
  network.set_now(Instant{5000});
  EXPECT_TRUE(network.run());
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const Status& status = network.call(rank, victim.job())->status();
    EXPECT_EQ(status.code(), Code::timeout) << "rank " << rank;
    EXPECT_NE(status.message().find("job 1 node"), std::string::npos) << status.message();
  }
  for (std::uint32_t rank = 0; rank < 4; ++rank) network.bank(rank).close_job(victim.job());
  // The trigger units that the victim's collective used can serve another job.
  JobRun next(network, {.kind = CollectiveKind::allreduce, .elements = 100, .job = 4});
  next.start();
  EXPECT_TRUE(network.run());
  next.expect_right("after it");
}

// All operations commute, so the results in the other tests do not show whether two operands were
// exchanged. This test reads the order of the operands from the descriptors.
TEST(OffloadCollectives, OperandsAreCombinedInRankOrder) {
  for (const CollectiveKind kind :
       {CollectiveKind::reduce, CollectiveKind::reduce_flat, CollectiveKind::allreduce}) {
    for (std::uint32_t ranks = 2; ranks <= 16; ++ranks) {
      std::vector<NodeId> nodes;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) nodes.push_back(static_cast<NodeId>(rank));
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        CollectiveCall call;
        call.kind = kind;
        call.nodes = nodes;
        call.rank = rank;
        call.root = ranks / 2;
        call.elements = 64;
        const auto sequences = build_sequences(call);
        ASSERT_TRUE(sequences.ok());
        std::uint32_t folded = 0;
        for (const Descriptor& d : (*sequences)[0]) {
          if (!d.reduce) continue;
          for (std::uint32_t i = 0; i < d.named_count; ++i) {
            EXPECT_EQ(index(d.named[i].node) < rank, i < d.local_position)
                << to_string(kind) << ", rank " << rank << " of " << ranks;
            ++folded;
          }
        }
        if (kind == CollectiveKind::reduce_flat) {
          EXPECT_EQ(folded, rank == call.root ? ranks - 1 : 0);
        }
      }
    }
  }
}

TEST(OffloadCollectives, ImpossibleCallsAreRefused) {
  const std::vector<NodeId> nodes(40, static_cast<NodeId>(3));
  CollectiveCall call;
  call.nodes = nodes;
  call.kind = CollectiveKind::reduce_flat;
  const auto code = [&] { return build_sequences(call).status().code(); };
  EXPECT_EQ(code(), Code::invalid_argument) << "39 children";
  call.kind = CollectiveKind::reduce;
  EXPECT_EQ(code(), Code::ok);
  call.operation = Operation::bit_or;
  call.type = ElementType::float16;
  EXPECT_EQ(code(), Code::unsupported);
  call.kind = CollectiveKind::broadcast;
  EXPECT_EQ(code(), Code::ok);
  call.rank = 40;
  EXPECT_EQ(code(), Code::invalid_argument);
  call.rank = 0;
  call.port = static_cast<Port>(2047);
  EXPECT_EQ(code(), Code::invalid_argument) << "the collective needs two ports";
  const std::vector<NodeId> many(1u << 15, static_cast<NodeId>(3));
  call = CollectiveCall();
  call.nodes = many;
  call.kind = CollectiveKind::allreduce;
  EXPECT_EQ(code(), Code::invalid_argument) << "more steps than the 5 bits of a step can count";
  call.nodes = std::span(many).first(1u << 14);
  EXPECT_EQ(code(), Code::ok);
}

}  // namespace
}  // namespace tutti::trigger
