// Tests reductions through aggregators over the real network stack, with and without network
// faults. For every type, operation and number of ranks, the result must have the same bits as a
// reduction in rank order. Counters must show that the aggregators computed the result.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <optional>
#include <span>

#include "aggregated_job.hpp"

namespace tutti::runtime {
namespace {

using Bytes = std::vector<std::byte>;

std::size_t first_difference(std::span<const std::byte> a, std::span<const std::byte> b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                                  a.begin());
}

/// One reduction. The data of all ranks are drawn from `seed`.
struct Case {
  DataType type = DataType::float32;
  ReduceOperation operation = ReduceOperation::sum;
  std::size_t count = 0;  ///< number of elements of the vector
  std::uint64_t seed = 0;

  std::vector<Bytes> inputs(std::uint32_t size) const {
    std::vector<Bytes> all;
    for (std::uint32_t r = 0; r < size; ++r) {
      all.push_back(contribution(type, count, draw(seed, r)));
    }
    return all;
  }
  std::string text() const {
    return std::string(to_string(operation)) + " of " + to_string(type) + " x " +
           std::to_string(count);
  }
  ReductionCall call(const Bytes& factor) const {
    return {.type = type, .operation = operation, .order = {}, .factor = factor, .will_wait = true};
  }
};

void check_allreduce(const Member& member, const Case& one, bool in_place) {
  const auto inputs = one.inputs(member.size);
  const Bytes wanted = folded(one.type, one.operation, inputs, rank_order(member.size));
  const Bytes factor = factor_of(one.type, member.rank);
  Bytes result = in_place ? inputs[member.rank] : Bytes(wanted.size());
  const std::span<const std::byte> input = in_place ? result : inputs[member.rank];
  const Status status =
      member.finish(member.aggregation->allreduce(input, result, one.call(factor)));
  ASSERT_TRUE(status.ok()) << one.text() << ": " << status.to_string();
  ASSERT_EQ(first_difference(result, wanted), wanted.size())
      << "allreduce, " << one.text() << ", rank " << member.rank;
}

void check_reduce(const Member& member, const Case& one, std::uint32_t root, bool in_place) {
  const auto inputs = one.inputs(member.size);
  const Bytes wanted = folded(one.type, one.operation, inputs, rank_order(member.size));
  const Bytes factor = factor_of(one.type, member.rank);
  Bytes result = in_place ? inputs[member.rank] : Bytes(wanted.size());
  const std::span<const std::byte> input = in_place ? result : inputs[member.rank];
  const Bytes before = result;
  const Status status =
      member.finish(member.aggregation->reduce(input, result, rank_of(root), one.call(factor)));
  ASSERT_TRUE(status.ok()) << one.text() << ": " << status.to_string();
  const Bytes& expected = member.rank == root ? wanted : before;
  ASSERT_EQ(first_difference(result, expected), wanted.size())
      << "reduce to " << root << ", " << one.text() << ", rank " << member.rank;
}

/// Runs and checks a Reduce-Scatter, in which `one.count` is the number of elements of a block.
void check_reduce_scatter(const Member& member, const Case& one, bool in_place,
                          std::optional<engine::FoldOrder> order) {
  Case whole = one;
  whole.count = one.count * member.size;
  auto inputs = whole.inputs(member.size);
  const std::size_t block = one.count * element_bytes(one.type);
  const auto ranks = order == engine::FoldOrder::ring ? ring_order(member.size, member.rank)
                                                      : rank_order(member.size);
  std::vector<Bytes> blocks;
  for (const Bytes& input : inputs) {
    const auto begin = input.begin() + static_cast<std::ptrdiff_t>(member.rank * block);
    blocks.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(block));
  }
  const Bytes wanted = folded(one.type, one.operation, blocks, ranks);
  const Bytes factor = factor_of(one.type, member.rank);
  Bytes apart(block);
  const std::span<std::byte> result =
      in_place ? std::span(inputs[member.rank]).subspan(member.rank * block, block)
               : std::span(apart);
  ReductionCall call = one.call(factor);
  call.order = order;
  const Status status =
      member.finish(member.aggregation->reduce_scatter(inputs[member.rank], result, call));
  ASSERT_TRUE(status.ok()) << one.text() << ": " << status.to_string();
  ASSERT_EQ(first_difference(result, wanted), block)
      << "reduce_scatter, " << one.text() << ", rank " << member.rank;
}

template <typename Body>
void for_every_reduction(Body&& body) {
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    for (std::size_t o = 0; o < kReduceOperations; ++o) {
      const auto type = static_cast<DataType>(t);
      const auto operation = static_cast<ReduceOperation>(o);
      if (reduction::is_supported(operation, type)) body(type, operation);
    }
  }
}

class Aggregated : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TUTTI_AGGREGATOR_KEY", kKey, 1); }
};

class InNetwork : public Aggregated, public testing::WithParamInterface<std::uint32_t> {};

INSTANTIATE_TEST_SUITE_P(Ranks, InNetwork, testing::Values(1u, 2u, 3u, 4u, 5u, 7u, 8u),
                         [](const auto& one) { return "P" + std::to_string(one.param); });

TEST_P(InNetwork, EveryReduction_equalsAReductionInRankOrder_bitForBit) {
  const auto service = start_service();
  std::atomic<std::uint64_t> calls{0};
  on_joined_ranks(GetParam(), patient(), {address_of(*service)}, [&](Member& member) {
    std::uint64_t seed = 1;
    for_every_reduction([&](DataType type, ReduceOperation operation) {
      const Case one{type, operation, 997 + seed % 5 * 1733, ++seed};
      check_allreduce(member, one, seed % 2 == 0);
      check_reduce(member, one, static_cast<std::uint32_t>(seed) % member.size, seed % 2 == 1);
      // If the call requests no order, the contributions must be combined in rank order.
      check_reduce_scatter(member, {type, operation, 331 + seed % 3 * 901, seed}, seed % 2 == 0,
                           std::nullopt);
      if (member.rank == 0) calls += 3;
    });
    const Counters counted = member.counters();
    EXPECT_EQ(counted.at("in_network_calls"), 3 * (12 * 9 - 4 * 3));
    EXPECT_GT(counted.at("in_network_segments_sent"), 0u);
  });
  Counters counted = counters_of(*service);
  EXPECT_EQ(counted["in_network_calls"], calls.load());
  EXPECT_GT(counted["in_network_pulses"], 0u);
  EXPECT_EQ(counted["messages_rejected"], 0u);
}

class InNetworkRing : public InNetwork {};

INSTANTIATE_TEST_SUITE_P(Ranks, InNetworkRing, testing::Values(2u, 3u, 4u, 5u, 7u, 8u),
                         [](const auto& one) { return "P" + std::to_string(one.param); });

TEST_P(InNetworkRing, ReduceScatter_combinesInRingOrder_andKeepsOwnBlocksLocal) {
  const auto service = start_service();
  const std::size_t count = 9001;
  on_joined_ranks(GetParam(), patient(), {address_of(*service)}, [&](Member& member) {
    std::uint64_t seed = 77;
    std::uint64_t sent = 0;
    for (const DataType type : {DataType::float32, DataType::bfloat16, DataType::float64}) {
      for (const auto operation : {ReduceOperation::sum, ReduceOperation::prod,
                                   ReduceOperation::average, ReduceOperation::premultiplied_sum}) {
        for (const bool in_place : {false, true}) {
          check_reduce_scatter(member, {type, operation, count, ++seed}, in_place,
                               engine::FoldOrder::ring);
          sent += count * element_bytes(type) * (member.size - 1);
        }
      }
    }
    EXPECT_EQ(member.counters().at("in_network_bytes_sent"), sent);
    EXPECT_EQ(member.counters().at("in_network_bytes_joined"), sent / (member.size - 1));
  });
}

TEST_P(InNetwork, ReductionOfAnyNumberOfElements_withAnyNumberOfAggregators_isRight) {
  for (std::size_t aggregators = 1; aggregators <= 3; ++aggregators) {
    std::vector<std::unique_ptr<AggregatorService>> services;
    std::vector<std::string> addresses;
    for (std::size_t i = 0; i < aggregators; ++i) {
      services.push_back(start_service());
      addresses.push_back(address_of(*services.back()));
    }
    on_joined_ranks(GetParam(), patient(), addresses, [&](Member& member) {
      std::uint64_t seed = 500;
      for (const std::size_t count : {0u, 1u, 2u, 7u, 1023u, 1024u, 1025u, 16'411u, 70'001u}) {
        const Case one{DataType::float32, ReduceOperation::sum, count, ++seed};
        check_allreduce(member, one, false);
        check_reduce(member, one, member.size - 1, false);
        check_reduce_scatter(member, one, true, engine::FoldOrder::rank);
      }
    });
    for (const auto& service : services) {
      EXPECT_GT(counters_of(*service)["in_network_bytes_reduced"], 0u);
    }
  }
}

TEST_P(InNetwork, Results_withNetworkFaults_equalThoseWithoutFaults) {
  std::uint64_t frames_hit = 0;
  for (const char* faults :
       {"seed=3; drop receiver chunk rate=3%; drop sender reliable rate=2%",
        "seed=4; reorder receiver chunk rate=10% distance=5; duplicate sender reliable rate=10%",
        "seed=5; drop sender chunk rate=1%; duplicate receiver chunk rate=5%; corrupt receiver "
        "chunk rate=1%; drop sender reliable rate=1%"}) {
    const auto network = faulty_network(faults);
    ASSERT_NE(network, nullptr);
    const auto service = start_service(kSmall, network);
    on_joined_ranks(GetParam(), patient(network), {address_of(*service)}, [&](Member& member) {
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        const Case one{DataType::float32, ReduceOperation::sum, 20'011, seed};
        check_allreduce(member, one, seed % 2 == 0);
        check_reduce_scatter(member, {DataType::float16, ReduceOperation::average, 5003, seed},
                             seed % 2 == 1, engine::FoldOrder::rank);
        check_reduce(member, one, 0, false);
      }
    });
    Counters counted = counters_of(*service);
    EXPECT_EQ(counted["in_network_calls"], 12u) << faults;
    const auto injected = network->injected();
    frames_hit += injected.frames_dropped + injected.frames_duplicated;
    EXPECT_GT(counted["in_network_pulses"], 0u) << faults;
  }
  EXPECT_GT(frames_hit, 0u);
}

TEST_P(InNetwork, CallsStartedBackToBackHaveTheRightResults) {
  const auto service = start_service();
  on_joined_ranks(GetParam(), patient(), {address_of(*service)}, [&](Member& member) {
    constexpr std::size_t kCalls = 12;
    std::vector<Case> cases;
    std::vector<Bytes> results;
    std::vector<std::vector<Bytes>> inputs;
    std::vector<Aggregation::Outcome> outcomes;
    for (std::size_t i = 0; i < kCalls; ++i) {
      cases.push_back({DataType::int32, ReduceOperation::sum, 3001 + i * 511, 40 + i});
      inputs.push_back(cases.back().inputs(member.size));
      results.emplace_back(inputs.back().front().size());
    }
    for (std::size_t i = 0; i < kCalls; ++i) {
      ReductionCall call = cases[i].call({});
      call.will_wait = false;
      const std::span<const std::byte> mine = inputs[i][member.rank];
      outcomes.push_back(i % 2 == 0
                             ? member.aggregation->allreduce(mine, results[i], call)
                             : member.aggregation->reduce(mine, results[i], rank_of(0), call));
    }
    for (std::size_t i = 0; i < kCalls; ++i) {
      const Status status = member.finish(outcomes[i]);
      ASSERT_TRUE(status.ok()) << status.to_string();
      if (i % 2 == 1 && member.rank != 0) continue;
      const Bytes wanted =
          folded(cases[i].type, cases[i].operation, inputs[i], rank_order(member.size));
      EXPECT_EQ(first_difference(results[i], wanted), wanted.size()) << "call " << i;
    }
  });
}

// In an Allreduce, a rank posts one segment per poll, so that other ranks on its core can start,
// too. The pauses between these segments must not count as waits for credits (in_network_stalls).
TEST_F(Aggregated, CallThatFitsIntoTheWindow_countsNoWaitForCredits) {
  const auto service = start_service(engine::WindowConfig{});
  on_joined_ranks(3, patient(), {address_of(*service)}, [&](Member& member) {
    for (std::uint64_t call = 0; call < 5; ++call) {
      check_allreduce(member, {DataType::float32, ReduceOperation::sum, 250'000, call}, false);
    }
    EXPECT_GE(member.counters().at("in_network_segments_sent"), 5u * 16);
    EXPECT_EQ(member.counters().at("in_network_stalls"), 0u);
  });
}

TEST_F(Aggregated, BitsOfTheResult_areTheSame_forEveryOrderOfArrival) {
  const auto network = faulty_network("seed=9; drop sender reliable rate=3%");
  const auto service = start_service(kSmall, network);
  const Case one{DataType::float32, ReduceOperation::sum, 5003, 1};
  const Bytes wanted = folded(one.type, one.operation, one.inputs(5), rank_order(5));
  std::barrier others_called(5);
  on_joined_ranks(5, patient(network), {address_of(*service)}, [&](Member& member) {
    const Bytes own = one.inputs(5)[member.rank];
    for (int run = 0; run < 60; ++run) {
      // A different rank is late in each run: it calls after all others.
      const bool late = run % 5 == static_cast<int>(member.rank);
      if (late) others_called.arrive_and_wait();
      Bytes result(wanted.size());
      ReductionCall call = one.call({});
      call.will_wait = false;
      const auto outcome = member.aggregation->allreduce(own, result, call);
      if (!late) others_called.arrive_and_wait();
      const Status status = member.finish(outcome);
      EXPECT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(first_difference(result, wanted), wanted.size()) << "run " << run;
    }
  });
  EXPECT_EQ(counters_of(*service)["in_network_calls"], 60u);
  EXPECT_GT(network->injected().frames_dropped, 0u);
}

TEST_F(Aggregated, FailingJobDoesNotAffectOtherJobsOfItsAggregator) {
  const auto service = start_service();
  std::vector<std::thread> jobs;
  for (std::uint32_t job = 0; job < 5; ++job) {
    jobs.emplace_back([&, job] {
      on_joined_ranks(2, patient(), {address_of(*service)}, [&](Member& member) {
        for (std::uint64_t call = 0; call < 20; ++call) {
          if (job == 4 && call == 5) {
            // The two ranks of this job pass different sizes, so the aggregator ends the job.
            const Bytes input(4000 + 4 * member.rank);
            Bytes result(input.size());
            const Status status =
                member.finish(member.aggregation->allreduce(input, result, {.will_wait = true}));
            EXPECT_FALSE(status.ok());
            return;
          }
          check_allreduce(member, {DataType::float32, ReduceOperation::sum, 2003, job * 100 + call},
                          false);
        }
      });
    });
  }
  for (std::thread& job : jobs) job.join();
  EXPECT_EQ(counters_of(*service)["in_network_calls"], 4u * 20 + 6);
}

}  // namespace
}  // namespace tutti::runtime
