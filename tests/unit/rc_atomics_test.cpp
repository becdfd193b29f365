// Tests atomics over the reliable channel: each is executed once and in order, and a repeated
// request gets the first answer again. An atomic that cannot be executed is refused.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "device/atomics.hpp"
#include "rc_harness.hpp"

namespace tutti::device::rc {
namespace {

using namespace test;  // NOLINT: namespace `test` holds only the harness of these tests
using std::chrono::microseconds;
using std::chrono::milliseconds;

using Word = std::array<std::byte, kAtomicBytes>;

std::uint64_t value_of(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

WorkRequest atomic_of(Opcode opcode, Word& old, MemoryKey key, std::uint64_t offset,
                      const AtomicOperands& operands, std::uint64_t work_id = 0) {
  WorkRequest request = one_sided(opcode, old, key, offset, work_id);
  request.atomic = operands;
  return request;
}

/// Atomics of one end, with the old value that each must return. Nothing else changes their words.
class Atomics {
 public:
  static constexpr std::size_t kWords = 4;

  Atomics(Pair& pair, std::size_t end, int requests) : pair_(pair), end_(end) {
    key_ = pair[1 - end].memory.add(std::as_writable_bytes(std::span(words_))).value();
    for (int i = 0; i < requests; ++i) post(static_cast<std::uint64_t>(i));
  }

  void verify() const {
    EXPECT_EQ(words_, meant_);
    const auto& done = pair_[end_].completions;
    ASSERT_EQ(done.size(), answers_.size());
    for (std::size_t i = 0; i < done.size(); ++i) {
      EXPECT_EQ(done[i].completion.code, Code::ok);
      EXPECT_EQ(done[i].completion.work_id, i) << "work must complete in the order posted";
      EXPECT_EQ(value_of(*answers_[i]), old_values_[i]) << i;
    }
    EXPECT_EQ(pair_[1 - end_].counters.atomics_served, answers_.size());
  }

 private:
  void post(std::uint64_t id) {
    auto& random = pair_.random();
    const std::size_t at = random() % kWords;
    const Opcode opcode = random() % 2 == 0 ? Opcode::compare_swap : Opcode::fetch_add;
    AtomicOperands operands{random() % 2 == 0 ? meant_[at] : random(), random(),
                            random() & random() & random(), random()};
    answers_.push_back(std::make_unique<Word>());
    old_values_.push_back(meant_[at]);
    meant_[at] = apply(atomic_kind(opcode), meant_[at], operands);
    ASSERT_TRUE(
        pair_.post(end_, atomic_of(opcode, *answers_.back(), key_, 8 * at, operands, id)).ok());
  }

  Pair& pair_;
  std::size_t end_;
  MemoryKey key_;
  std::array<std::uint64_t, kWords> words_{}, meant_{};
  std::vector<std::unique_ptr<Word>> answers_;
  std::vector<std::uint64_t> old_values_;
};

TEST(RcAtomics, Atomics_overLinksWithFaults_areExecutedOnceAndInOrder) {
  std::uint64_t resent = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    RcConfig config;
    const std::uint32_t first = 0xffff'ffff - static_cast<std::uint32_t>(seed) * 40;
    config.unexpected_buffers = seed % 5 == 0 ? 3 : 256;
    Pair pair(seed, faults_of(seed, 0.25), config, {first, first, 0});
    Atomics there(pair, 0, 400);  // more atomics than may be under way at once
    Atomics back(pair, 1, 400);
    ASSERT_TRUE(pair.run_until_quiet());
    there.verify();
    back.verify();
    EXPECT_EQ(pair[0].counters.rejected_malformed + pair[1].counters.rejected_malformed, 0u);
    resent += pair[0].counters.frames_resent;
  }
  EXPECT_GT(resent, 0u);
}

TEST(RcAtomics, LostAnswerToAnAtomic_isRepeatedWithTheValueOfTheFirstAnswer) {
  Pair pair(1);
  std::uint64_t word = 7;
  const MemoryKey key = pair[1].memory.add(std::as_writable_bytes(std::span(&word, 1))).value();
  int answers = 0;
  pair.filter = [&](std::size_t, const Bytes& bytes) {
    if (kind_of(bytes) != RcKind::atomic_answer || ++answers > 1) return true;
    word += 100;  // changes the word after the atomic, before the repeated answer
    return false;
  };
  Word old{};
  ASSERT_TRUE(
      pair.post(0, atomic_of(Opcode::fetch_add, old, key, 0, AtomicOperands::fetch_add(5))).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_GE(answers, 2);
  EXPECT_EQ(value_of(old), 7u);
  EXPECT_EQ(word, 112u);
  EXPECT_EQ(pair[1].counters.atomics_served, 1u);
}

TEST(RcAtomics, AtomicAfterAWrite_seesItsData) {
  Pair pair(2);
  std::vector<std::uint64_t> words(10'000);
  const MemoryKey key = pair[1].memory.add(std::as_writable_bytes(std::span(words))).value();
  std::vector<std::uint64_t> data(words.size(), 3);
  Word old{};
  ASSERT_TRUE(
      pair.post(0, one_sided(Opcode::write, std::as_writable_bytes(std::span(data)), key)).ok());
  ASSERT_TRUE(
      pair.post(0, atomic_of(Opcode::fetch_add, old, key, 8 * 9'999, AtomicOperands::fetch_add(1)))
          .ok());
  ASSERT_TRUE(pair.run_until_quiet());
  EXPECT_EQ(value_of(old), 3u);
  EXPECT_EQ(words.back(), 4u);
}

TEST(RcAtomics, Atomic_onAWordThatIsUnalignedOrNotRegistered_isRefused) {
  Pair pair(3);
  alignas(8) std::array<std::byte, 64> memory{};
  const MemoryKey key = pair[1].memory.add(std::span(memory).first(20)).value();
  const MemoryKey shifted = pair[1].memory.add(std::span(memory).subspan(4, 16)).value();
  std::array<Word, 5> old;
  for (Word& one : old) one.fill(std::byte{9});
  const AtomicOperands add = AtomicOperands::fetch_add(1);
  ASSERT_TRUE(pair.post(0, atomic_of(Opcode::fetch_add, old[0], {12345}, 0, add, 0)).ok());
  ASSERT_TRUE(pair.post(0, atomic_of(Opcode::fetch_add, old[1], key, 16, add, 1)).ok());
  ASSERT_TRUE(pair.post(0, atomic_of(Opcode::compare_swap, old[2], shifted, 0, add, 2)).ok());
  ASSERT_TRUE(pair.post(0, atomic_of(Opcode::fetch_add, old[3], key, UINT64_MAX - 7, add, 3)).ok());
  ASSERT_TRUE(pair.post(0, atomic_of(Opcode::fetch_add, old[4], key, 8, add, 4)).ok());
  ASSERT_TRUE(pair.run_until_quiet());
  ASSERT_EQ(pair[0].completions.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    const bool good = i == 4;
    EXPECT_EQ(pair[0].completions[i].completion.code, good ? Code::ok : Code::invalid_argument);
    EXPECT_EQ(value_of(old[i]), good ? 0 : 0x0909'0909'0909'0909) << i;
  }
  EXPECT_EQ(value_of(std::span(memory).subspan(8, 8)), 1u);
  EXPECT_EQ(pair[1].counters.atomics_served, 1u);
  EXPECT_EQ(pair[1].counters.refused_operations, 4u);
}

TEST(RcAtomics, WrongArguments_areRefusedAtThePost) {
  Pair pair(4);
  Word old{};
  const AtomicOperands add = AtomicOperands::fetch_add(1);
  const Status unaligned = pair.post(0, atomic_of(Opcode::fetch_add, old, {1}, 4, add));
  EXPECT_EQ(unaligned.code(), Code::invalid_argument);
  EXPECT_NE(unaligned.message().find("offset 4"), std::string::npos);
  Bytes brief(4);
  EXPECT_EQ(pair.post(0, one_sided(Opcode::compare_swap, brief, {1})).code(),
            Code::invalid_argument);
}

TEST(RcAtomics, AbandonedAtomics_completeWithoutAnAnswer) {
  Pair pair(5);
  std::uint64_t word = 0;
  const MemoryKey key = pair[1].memory.add(std::as_writable_bytes(std::span(&word, 1))).value();
  std::vector<Word> old(600);  // too many to be under way at once, so that some are not begun
  for (Word& one : old)
    ASSERT_TRUE(
        pair.post(0, atomic_of(Opcode::fetch_add, one, key, 0, AtomicOperands::fetch_add(1))).ok());
  OutgoingFrame frame;
  // The frame is lost, so its atomics are begun but never answered.
  ASSERT_TRUE(pair.channel(0).next_frame(pair.now(), frame));
  pair.channel(0).abandon();
  ASSERT_TRUE(pair.run_until_quiet());
  ASSERT_EQ(pair[0].completions.size(), old.size());
  for (const Recorded& one : pair[0].completions) EXPECT_EQ(one.completion.code, Code::aborted);
  EXPECT_EQ(word, 0u);
  for (const Word& one : old) EXPECT_EQ(value_of(one), 0u);
}

}  // namespace
}  // namespace tutti::device::rc
