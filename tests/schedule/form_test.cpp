// Tests how schedules are represented and made: buffer slices, text form, the sizes that a call
// fills in, template cache, builder and registry.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/random.hpp"
#include "purposes.hpp"
#include "schedule/cache.hpp"
#include "schedule/core_direct/core_direct.hpp"
#include "schedule/shape.hpp"
#include "schedule/text.hpp"

namespace {

std::atomic<std::uint64_t> allocations{0};

void* counted(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// These replacements of operator new count the allocations of the tested code.
void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace tutti::schedule {
namespace {

using collectives::build;

Schedule built(const Purpose& purpose) {
  Result<Schedule> schedule = build(purpose);
  EXPECT_TRUE(schedule.ok()) << schedule.status().to_string();
  return schedule ? std::move(*schedule) : Schedule();
}

TEST(Parts, PartsCoverABlockAndDifferByAtMostOneElement) {
  for (std::uint64_t elements : {0u, 1u, 7u, 64u, 1000003u}) {
    for (std::uint64_t parts : {1u, 2u, 3u, 7u, 64u, 4096u}) {
      EXPECT_EQ(part_border(elements, 0, parts), 0u);
      EXPECT_EQ(part_border(elements, parts, parts), elements);
      for (std::uint64_t i = 0; i < parts; ++i) {
        const std::uint64_t size =
            part_border(elements, i + 1, parts) - part_border(elements, i, parts);
        EXPECT_GE(size, elements / parts);
        EXPECT_LE(size, elements / parts + 1);
      }
    }
  }
}

// The validator compares fractions of a block instead of bytes. This is right only if equal
// fractions, such as 1/2 and 5/10, end at the same element.
TEST(Parts, EqualFractions_asOneHalfAndFiveTenths_endAtTheSameElement) {
  for (std::uint64_t elements = 0; elements < 200; ++elements) {
    for (std::uint64_t k = 1; k <= 12; ++k) {
      for (std::uint64_t i = 0; i <= k; ++i) {
        EXPECT_EQ(part_border(elements, i, k), part_border(elements, 5 * i, 5 * k));
        // Borders keep the order of the fractions: if i/k is at most 2/3, the border at i/k must
        // not lie behind the border at 2/3.
        if (3 * i <= 2 * k) {
          EXPECT_LE(part_border(elements, i, k), part_border(elements, 2, 3));
        }
      }
    }
  }
}

TEST(Parts, PartsCoverBlocksNearTheLargestSize) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  EXPECT_EQ(part_border(kHuge, 4095, 4096), kHuge / 4096 * 4095);
}

TEST(BufferSlices, PartOfAPartOfABlock_hasTheRightBounds) {
  const BufferSlice half = block_of(Buffer::receive, 2).part(1, 2);
  EXPECT_EQ(half.part(1, 3).begin(), (Fraction{4, 6}));
  EXPECT_EQ(half.part(0, 2, 3).end(), (Fraction{5, 6}));
  EXPECT_TRUE(contains(half, half.part(2, 3)));
  EXPECT_FALSE(overlap(half.part(0, 3), half.part(1, 3)));
  EXPECT_TRUE(overlap(half, block_of(Buffer::receive, 2).part(2, 3)));
  EXPECT_FALSE(overlap(half, block_of(Buffer::scratch, 2)));
}

TEST(Text, TextOfEveryAlgorithmParsesToAnEqualSchedule) {
  for (const collectives::AlgorithmEntry& entry : collectives::algorithms()) {
    for (std::uint32_t ranks : {1u, 4u, 9u}) {
      for (Purpose purpose : purposes_of(entry, ranks)) {
        purpose.rank = rank_of(ranks / 2);
        const Schedule schedule = built(purpose);
        const std::string text = to_text(schedule);
        const Result<Schedule> read = parse_schedule(text);
        ASSERT_TRUE(read.ok()) << read.status().to_string() << "\n" << text;
        ASSERT_EQ(to_text(*read), text);
        ASSERT_TRUE(*read == schedule) << text;
      }
    }
  }
}

TEST(Text, TextOfALoweredScheduleParsesToAnEqualSchedule) {
  for (const char* algorithm : {"bruck", "standard_exchange", "ring"}) {
    for (Transfer transfer : {Transfer::eager, Transfer::rendezvous}) {
      const Result<Schedule> lowered = lower_to_core_direct(
          built({Collective::allgather, algorithm, 8, rank_of(3), {}, {}}), {transfer, true});
      ASSERT_TRUE(lowered.ok());
      const Result<Schedule> read = parse_schedule(to_text(*lowered));
      ASSERT_TRUE(read.ok()) << read.status().to_string();
      EXPECT_TRUE(*read == *lowered);
    }
  }
}

TEST(Text, RingAllgatherHasTheDocumentedText) {
  EXPECT_EQ(to_text(built({Collective::allgather, "ring", 3, rank_of(1), {}, {}})),
            "tutti-schedule 1\n"
            "collective allgather\n"
            "algorithm ring\n"
            "ranks 3 rank 1 root 0\n"
            "parameters ports=1 radix=2 segments=1 chains=1 ready=0 handshake=0\n"
            "scratch 0\n"
            "queue 0 free\n"
            "task 0 copy send[0] -> receive[1]\n"
            "task 1 send to 2 slot 0 from send[0]\n"
            "task 2 recv from 0 slot 0 into receive[0]\n"
            "task 3 round 1 send to 2 slot 1 from receive[0] after 2\n"
            "task 4 round 1 recv from 0 slot 1 into receive[2]\n"
            "end\n");
}

TEST(Text, ErrorNamesTheLineAndTheRemedy) {
  const std::string heading =
      "tutti-schedule 1\ncollective allgather\nalgorithm ring\nranks 3 rank 1 root 0\n"
      "parameters ports=1 radix=2 segments=1 chains=1 ready=0 handshake=0\nscratch 0\n"
      "queue 0 free\n";
  const std::pair<std::string, std::string> cases[] = {
      {"tutti-schedule 7\n", "line 1 of the schedule: version 7"},
      {"tutti-schedule 1\ncollective sing\n",
       "line 2 of the schedule: no collective is named 'sing': choose one"},
      {heading + "task 0 jump\nend\n",
       "line 8 of the schedule: 'jump' is not a task: use one of send"},
      {heading + "task 1 copy send[0] -> receive[1]\nend\n",
       "line 8 of the schedule: task 1 found instead of task 0"},
      {heading + "task 0 send to 2 slot x from send[0]\nend\n",
       "line 8 of the schedule: 'x' is not a valid slot"},
      {heading + "task 0 send to 2 slot 0 from sand[0]\nend\n",
       "line 8 of the schedule: 'sand[0]' is not a buffer slice"},
      {heading + "task 0 send to 2 slot 0 from send[3..1]\nend\n", "is not a buffer slice"},
      {heading + "task 0 copy send[0] to receive[1]\nend\n", "found 'to' instead of '->'"},
      {heading + "task 0 signal to 2 slot 0 loudly\nend\n",
       "unexpected 'loudly' at the end of the line: remove it"},
      {heading + "queue 1 round\nend\n", "line 8 of the schedule: 'round' is not a queue"},
      {heading + "task 0 copy send[0] -> receive[1]\n", "stops before the line 'end'"},
      {heading + "end\ntask 0 copy send[0] -> receive[1]\n", "follows 'end': remove it"},
      {heading + "task 0 on 4 copy send[0] -> receive[1]\nend\n", "queue 4 does not exist"},
      {heading + "task 0 copy send[0] -> receive[1] after 0\nend\n",
       "depends on task 0, which does not precede it"},
      {heading + "task 0 copy send[0]{3/2} -> receive[1]\nend\n", "parts 3..4 of 2"},
      {heading + "task 0 send to 2 slot 2147483647 from send[0]\nend\n",
       "match slot 2147483647 is reserved"},
      {heading + "task 0 signal to 2 slot 4294967295\nend\n", "match slot 4294967295 is reserved"},
  };
  for (const auto& [text, message] : cases) {
    const Result<Schedule> read = parse_schedule(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.status().message().find(message), std::string::npos)
        << read.status().message() << "\nlacks: " << message;
  }
}

TEST(Text, DamagedText_isRefusedWithAMessage_orParsesToAPrintableSchedule) {
  const std::string text = to_text(built({Collective::allreduce, "ring", 5, rank_of(2), {}, {}}));
  std::uint32_t parsed = 0;
  std::uint32_t refused = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    Random random(seed);
    std::string damaged = text;
    for (std::uint64_t n = 1 + random.below(3); n > 0; --n)
      damaged[random.below(damaged.size())] = static_cast<char>(32 + random.below(95));
    const Result<Schedule> read = parse_schedule(damaged);
    ++(read ? parsed : refused);
    if (read) {
      EXPECT_EQ(to_text(*parse_schedule(to_text(*read))), to_text(*read));
    } else {
      EXPECT_FALSE(read.status().message().empty());
    }
  }
  EXPECT_GT(parsed, 0u);
  EXPECT_GT(refused, 1000u);
}

TEST(Fill, FillingAllocatesNothing) {
  for (const collectives::AlgorithmEntry& entry : collectives::algorithms()) {
    const std::vector<Purpose> purposes = purposes_of(entry, 16);
    for (const Purpose& purpose : purposes) {
      const Schedule schedule = built(purpose);
      std::vector<FilledTask> filled(schedule.tasks().size());
      Shape shape = Shape::uniform(1 << 20, 8);
      shape.in_place = has_in_place(entry.collective);
      const std::uint64_t before = allocations;
      const Status status = fill(schedule, shape, filled);
      EXPECT_EQ(allocations - before, 0u) << case_name(purpose);
      EXPECT_TRUE(status.ok()) << status.to_string();
    }
  }
}

TEST(Fill, BlocksAndPartsHaveTheRightOffsets) {
  const Schedule bruck = built({Collective::allgather, "bruck", 4, rank_of(1), {}, {}});
  std::vector<FilledTask> filled(bruck.tasks().size());
  ASSERT_TRUE(fill(bruck, Shape::uniform(100), filled).ok());
  for (std::size_t t = 0; t < filled.size(); ++t) {
    const Task& task = bruck.tasks()[t];
    EXPECT_EQ(filled[t].source.offset_bytes, task.source.first_block * 100u);
    EXPECT_EQ(filled[t].source.size_bytes, task.source.block_count * 100u);
    EXPECT_EQ(filled[t].target.buffer, task.target.buffer);
  }
  EXPECT_EQ(scratch_bytes(bruck, Shape::uniform(100)), 400u);
  // A block of 10 elements of 8 bytes in 4 parts has parts of 2, 3, 2 and 3 elements.
  const BufferSlice third = block_of(Buffer::receive, 1).part(2, 4);
  EXPECT_EQ(*resolve(third, Shape::uniform(80, 8)), (Extent{Buffer::receive, 80 + 40, 16}));
}

TEST(Fill, MessagesUpToTheEagerLimit_areEager_andLongerOnesUseRendezvous) {
  const Schedule ring = built({Collective::allgather, "ring", 4, rank_of(0), {}, {}});
  std::vector<FilledTask> filled(ring.tasks().size());
  Shape shape = Shape::uniform(4096);
  shape.eager_limit_bytes = 4096;
  ASSERT_TRUE(fill(ring, shape, filled).ok());
  EXPECT_EQ(filled[1].transfer, Transfer::eager);
  shape.eager_limit_bytes = 4095;
  ASSERT_TRUE(fill(ring, shape, filled).ok());
  EXPECT_EQ(filled[1].transfer, Transfer::rendezvous);
}

TEST(Fill, BlocksOfDifferentSizes_haveTheOffsetsOfTheShape) {
  const std::uint64_t sizes[] = {5, 0, 7};
  const std::uint64_t offsets[] = {0, 9, 20};
  const Shape shape = Shape::varying({7, {}, {}}, {0, sizes, offsets});
  const Schedule ring = built({Collective::allgatherv, "ring", 3, rank_of(2), {}, {}});
  std::vector<FilledTask> filled(ring.tasks().size());
  ASSERT_TRUE(fill(ring, shape, filled).ok());
  EXPECT_EQ(filled[0].source, (Extent{Buffer::send, 0, 7}));
  EXPECT_EQ(filled[0].target, (Extent{Buffer::receive, 20, 7}));
  EXPECT_EQ(filled[2].target, (Extent{Buffer::receive, 9, 0}));
  EXPECT_EQ(filled[4].target, (Extent{Buffer::receive, 0, 5}));
}

TEST(Fill, CallInPlace_sendsItsOwnBlockFromTheReceiveBuffer) {
  const Schedule ring = built({Collective::allgather, "ring", 4, rank_of(2), {}, {}});
  std::vector<FilledTask> filled(ring.tasks().size());
  Shape shape = Shape::uniform(64);
  shape.in_place = true;
  ASSERT_TRUE(fill(ring, shape, filled).ok());
  EXPECT_EQ(filled[0].target.size_bytes, 0u);  // the copy of a block onto itself is empty
  EXPECT_EQ(filled[1].source, (Extent{Buffer::receive, 128, 64}));
}

TEST(Fill, UnsuitableShapesAreRefused) {
  const Schedule bruck = built({Collective::allgather, "bruck", 3, rank_of(0), {}, {}});
  std::vector<FilledTask> filled(bruck.tasks().size());
  const std::uint64_t sizes[] = {5, 0, 7};
  const std::uint64_t offsets[] = {0, 5, 5};
  const Status varying =
      fill(bruck, Shape::varying({sizes[0], {}, {}}, {0, sizes, offsets}), filled);
  EXPECT_NE(varying.message().find("choose an algorithm that moves single blocks"),
            std::string::npos)
      << varying.to_string();
  const Status room = fill(bruck, Shape::uniform(8), std::span(filled).first(2));
  EXPECT_NE(room.message().find("one entry for each task"), std::string::npos) << room.to_string();
  Shape in_place = Shape::uniform(8);
  in_place.in_place = true;
  const Schedule alltoall = built({Collective::alltoall, "linear", 3, rank_of(0), {}, {}});
  std::vector<FilledTask> own(alltoall.tasks().size());
  EXPECT_FALSE(fill(alltoall, in_place, own).ok());
}

TEST(TemplateCache, TemplateOfEachKey_isBuiltOnce_andTheLeastRecentlyUsedIsEvicted) {
  TemplateCache cache(2, build);
  const TemplateKey ring{Collective::allgather, "ring", 8, rank_of(3), rank_of(0), {}};
  TemplateKey other_root{Collective::broadcast, "binomial", 8, rank_of(3), rank_of(1), {}};
  const auto first = cache.get(ring);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(cache.get(ring).value().get(), first->get());
  EXPECT_EQ(cache.builds(), 1u);
  ASSERT_TRUE(cache.get(other_root).ok());
  other_root.root = rank_of(2);
  ASSERT_TRUE(cache.get(ring).ok());
  // The cache is full, and the template for root 1 was used least recently. The template for root 2
  // therefore replaces it, and the template of the ring stays.
  ASSERT_TRUE(cache.get(other_root).ok());
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.builds(), 3u);
  EXPECT_EQ(cache.get(ring).value().get(), first->get());
  TemplateKey pipelined = other_root;
  pipelined.parameters.segments = 4;
  ASSERT_TRUE(cache.get(pipelined).ok());
  EXPECT_EQ(cache.builds(), 4u);
}

TEST(TemplateCache, LookupAllocatesNothing) {
  TemplateCache cache(8, build);
  const TemplateKey key{Collective::allgather, "standard_exchange", 16, rank_of(3), rank_of(0), {}};
  ASSERT_TRUE(cache.get(key).ok());
  const std::uint64_t before = allocations;
  const auto found = cache.get(key);
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_EQ((*found)->ranks(), 16u);
}

TEST(TemplateCache, ErrorOfAFailedBuild_isReturned_andNotCached) {
  TemplateCache cache(2, build);
  const auto missing = cache.get({Collective::allgather, "telepathy", 8, rank_of(0), {}, {}});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("choose one of bruck, linear"), std::string::npos);
  EXPECT_EQ(cache.size(), 0u);
}

TEST(Builder, DependenciesOfTasks_areOnlyThoseThatTheDataRequires) {
  Builder b({Collective::allreduce, "test", 2, rank_of(0), rank_of(0), {}});
  const BufferSlice own = b.receive_block();
  const BufferSlice theirs = b.scratch();
  b.copy(b.send_block(), own);            // task 0
  b.send(rank_of(1), own.part(0, 2));     // task 1, which reads the bytes written by task 0
  b.recv(rank_of(1), theirs.part(1, 2));  // task 2, which depends on no task
  // Task 3 depends on tasks 0 and 2, but not on task 1, which reads the other half.
  b.reduce(theirs.part(1, 2), own.part(1, 2));
  // Task 4 overwrites the bytes that task 0 writes and task 1 reads.
  b.recv(rank_of(1), own.part(0, 2));
  b.send(rank_of(1), own);  // task 5, which reads the whole block
  const Schedule schedule = *b.finish();
  const auto depends = [&](TaskIndex t) {
    const auto before = schedule.dependencies(t);
    return std::vector<TaskIndex>(before.begin(), before.end());
  };
  using Tasks = std::vector<TaskIndex>;
  EXPECT_EQ(depends(0), Tasks());
  EXPECT_EQ(depends(1), Tasks({0}));
  EXPECT_EQ(depends(2), Tasks());
  EXPECT_EQ(depends(3), Tasks({0, 2}));
  // Task 4 overwrites bytes that task 1 sends. Task 4 therefore waits for task 1, even if the call
  // is in place.
  EXPECT_EQ(depends(4), Tasks({0, 1}));
  EXPECT_EQ(depends(5), Tasks({0, 3, 4}));
  const auto waiting = schedule.dependents(0);
  EXPECT_EQ(Tasks(waiting.begin(), waiting.end()), Tasks({1, 3, 4, 5}));
}

TEST(Registry, UnknownAlgorithmName_isRefused_andTheKnownOnesAreListed) {
  const auto missing = collectives::find_algorithm(Collective::barrier, "tree");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().message(),
            "barrier has no algorithm 'tree': choose one of counter, dissemination, linear, "
            "recursive_doubling");
}

TEST(Registry, RankCountThatAnAlgorithmCannotServe_isNamedInTheError) {
  const auto refusal = [](Purpose purpose) {
    const Result<Schedule> schedule = build(purpose);
    EXPECT_FALSE(schedule.ok());
    return schedule.status().message();
  };
  EXPECT_NE(refusal({Collective::allgather, "standard_exchange", 6, {}, {}, {}})
                .find("needs a number of ranks that is a power of 2, but there are 6 ranks: choose "
                      "'bruck'"),
            std::string::npos);
  EXPECT_NE(refusal({Collective::allgather, "neighbour_exchange", 5, {}, {}, {}})
                .find("needs an even number of ranks, not 5: choose 'ring'"),
            std::string::npos);
  EXPECT_NE(refusal({Collective::broadcast, "chain", 4, {}, rank_of(4), {}}).find("choose 0 to 3"),
            std::string::npos);
  Purpose radix{Collective::broadcast, "k_nomial", 4, {}, {}, {}};
  radix.parameters.radix = 1;
  EXPECT_NE(refusal(radix).find("radix is 1, which is out of range: choose 2 to 64"),
            std::string::npos);
}

TEST(Registry, AlgorithmsOfEachCollective_areListed_andHaveUniqueNames) {
  for (std::uint32_t c = 0; c < kCollectives; ++c) {
    const auto entries = collectives::algorithms_of(static_cast<Collective>(c));
    EXPECT_FALSE(entries.empty()) << to_string(static_cast<Collective>(c));
    for (const auto& entry : entries)
      EXPECT_EQ(collectives::find_algorithm(entry.collective, entry.name).value(), &entry);
  }
}

}  // namespace
}  // namespace tutti::schedule
