// Tests reductions of floats by schedules over sockets. A float sum depends on its association, so
// equal bits prove that every message was added at the step that the schedule prescribes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "../unit/communicator_ranks.hpp"
#include "collectives/registry.hpp"
#include "interpreter.hpp"

namespace tutti::schedule {
namespace {

using Floats = std::vector<float>;

/// Adds two vectors of floats element by element.
void add_floats(std::span<const std::byte> left, std::span<const std::byte> right,
                std::span<std::byte> target) {
  for (std::size_t at = 0; at + 4 <= target.size(); at += 4) {
    float l = 0;
    float r = 0;
    std::memcpy(&l, left.data() + at, 4);
    std::memcpy(&r, right.data() + at, 4);
    l += r;
    std::memcpy(target.data() + at, &l, 4);
  }
}

/// Values of both signs and of magnitudes from 2^-20 to 2^20, so that sums round at every step.
Floats contribution(std::uint32_t rank, std::size_t count) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = draw(901 + rank, i);
    const float fraction = 1.0f + static_cast<float>(bits & 0x7f'ffff) / 8'388'608.0f;
    const int exponent = static_cast<int>((bits >> 24) % 41) - 20;
    values[i] = std::ldexp((bits >> 63) != 0 ? -fraction : fraction, exponent);
  }
  return values;
}

Floats folded(const std::vector<std::uint32_t>& ranks, std::size_t count) {
  Floats sum = contribution(ranks.front(), count);
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const Floats next = contribution(ranks[r], count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += next[i];
  }
  return sum;
}

/// One reduction, with the bits that the reference interpreter computes for every rank.
struct Case {
  const collectives::AlgorithmEntry* entry = nullptr;
  std::size_t count = 0;  ///< number of elements of a block
  std::uint32_t root = 0;
  std::vector<std::vector<std::byte>> expected{};
};

bool is_reduction(Collective collective) {
  return collective == Collective::reduce || collective == Collective::allreduce ||
         collective == Collective::reduce_scatter;
}

std::size_t sent_elements(const Case& one, std::uint32_t ranks) {
  return one.entry->collective == Collective::reduce_scatter ? one.count * ranks : one.count;
}

void interpret(Case& one, std::uint32_t ranks) {
  const auto schedules = collectives::build_all({.collective = one.entry->collective,
                                                 .algorithm = std::string(one.entry->name),
                                                 .ranks = ranks,
                                                 .rank = rank_of(0),
                                                 .root = rank_of(one.root)});
  ASSERT_TRUE(schedules.ok()) << schedules.status().to_string();
  const std::size_t block_bytes = one.count * sizeof(float);
  const std::vector<Shape> shapes(ranks, Shape::uniform(block_bytes, sizeof(float)));
  std::vector<Memory> memory(ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    for (const Buffer buffer : {Buffer::send, Buffer::receive, Buffer::scratch}) {
      memory[r].of(buffer).resize(block_bytes * (*schedules)[r].blocks(buffer));
    }
    const Floats own = contribution(r, sent_elements(one, ranks));
    ASSERT_EQ(memory[r].of(Buffer::send).size(), own.size() * sizeof(float));
    std::memcpy(memory[r].of(Buffer::send).data(), own.data(), own.size() * sizeof(float));
  }
  Interpreter interpreter(*schedules, shapes, memory, add_floats, 1);
  const Status status = interpreter.run();
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (Memory& rank : memory) one.expected.push_back(rank.of(Buffer::receive));
}

void run(Communicator& communicator, const Case& one) {
  const std::uint32_t me = index(communicator.rank());
  const Floats own = contribution(me, sent_elements(one, communicator.size()));
  const std::vector<std::byte>& expected = one.expected[me];
  std::vector<std::byte> received(expected.size());
  CollectiveCall call{.collective = one.entry->collective,
                      .send = std::as_bytes(std::span(own)),
                      .receive = received,
                      .root = rank_of(one.root),
                      .reduction = {.type = DataType::float32},
                      .options = {.algorithm = Algorithm(one.entry->name), .will_wait = true}};
  test::finish(communicator.start(call));
  const auto wrong = std::mismatch(received.begin(), received.end(), expected.begin()).first;
  EXPECT_EQ(wrong - received.begin(), std::ptrdiff_t(expected.size()))
      << to_string(one.entry->collective) << " " << one.entry->name << " of " << one.count
      << " floats, P = " << communicator.size() << ", rank " << me;
}

class FloatReductions : public testing::TestWithParam<std::uint32_t> {};

INSTANTIATE_TEST_SUITE_P(Schedule, FloatReductions, testing::Values(2u, 3u, 4u, 5u, 8u),
                         [](const auto& one) { return "P" + std::to_string(one.param); });

TEST_P(FloatReductions, ReductionsOverSockets_equalTheInterpretedScheduleBitForBit) {
  const std::uint32_t ranks = GetParam();
  std::vector<Case> cases;
  for (const collectives::AlgorithmEntry& entry : collectives::algorithms()) {
    if (!is_reduction(entry.collective)) continue;
    const Purpose purpose{
        .collective = entry.collective, .algorithm = std::string(entry.name), .ranks = ranks};
    if (entry.restriction != nullptr && !entry.restriction(purpose).ok()) continue;
    // Short blocks travel by the eager protocol, long ones by rendezvous.
    for (const std::size_t count : {1'003u, 5'003u}) {
      Case one{.entry = &entry, .count = count};
      if (entry.collective == Collective::reduce) one.root = ranks - 1;
      interpret(one, ranks);
      ASSERT_EQ(one.expected.size(), ranks);
      cases.push_back(std::move(one));
    }
  }
  ASSERT_GE(cases.size(), 2u * 6);
  CommunicatorOptions options = test::patient();
  test::on_ranks(ranks, options, [&](Communicator& communicator) {
    const test::Counters before = test::counters_of(communicator);
    for (const Case& one : cases) run(communicator, one);
    const test::Counters after = test::counters_of(communicator);
    EXPECT_GT(test::grown(before, after, "messages_eager"), 0u);
    EXPECT_GT(test::grown(before, after, "messages_rendezvous"), 0u);
    test::finish(communicator.barrier());
  });
}

TEST(FloatReductionData, TestData_addedInReverseOrder_givesDifferentBits) {
  EXPECT_NE(folded({0, 1, 2}, 1'003), folded({2, 1, 0}, 1'003));
}

}  // namespace
}  // namespace tutti::schedule
