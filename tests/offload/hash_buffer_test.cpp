#include "trigger/hash_buffer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/random.hpp"
#include "trigger/packet.hpp"

namespace tutti::trigger {
namespace {

constexpr std::uint32_t kSlotBytes = 16;

PacketKey key_of(std::uint32_t job, std::uint32_t node, std::uint32_t port = 0,
                 std::uint32_t step = 0) {
  return {static_cast<JobId>(job), static_cast<NodeId>(node), static_cast<Port>(port),
          static_cast<SequenceId>(step)};
}

std::vector<std::byte> payload_of(std::uint64_t value, std::size_t size = sizeof value) {
  std::vector<std::byte> payload(size);
  if (size != 0) std::memcpy(payload.data(), &value, std::min(size, sizeof value));
  return payload;
}

HashBuffer small() { return HashBuffer({.slots = 64, .slot_bytes = kSlotBytes, .readers = 4}); }

TEST(PacketKey, FieldsOfAPacketKey_haveTheDocumentedWidths) {
  const PacketKey largest = key_of(255, (1u << 24) - 1, 2047, 31);
  EXPECT_EQ(largest.packed(), (std::uint64_t{1} << 48) - 1);
  EXPECT_EQ(PacketKey::unpack(largest.packed()), largest);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t packed = mix(i) >> 16;
    EXPECT_EQ(PacketKey::unpack(packed).packed(), packed);
  }
  EXPECT_EQ(to_string(key_of(3, 7, 2, 4)), "job 3 node 7 port 2 step 4");
}

TEST(HashBuffer, PacketStaysUntilItIsReleased) {
  HashBuffer buffer = small();
  EXPECT_EQ(buffer.home_slots() + 7, buffer.slots())
      << "a tenth of the slots, rounded up, is the reserve for collisions";
  EXPECT_FALSE(buffer.peek(key_of(1, 2)));
  EXPECT_EQ(buffer.write(key_of(1, 2), 5, payload_of(77)), HashBuffer::Wrote::stored);
  const auto stored = buffer.peek(key_of(1, 2));
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->tag, 5u);
  ASSERT_EQ(stored->payload.size(), 8u);
  EXPECT_EQ(std::memcmp(stored->payload.data(), payload_of(77).data(), 8), 0);
  EXPECT_FALSE(buffer.peek(key_of(1, 2, 0, 1))) << "the step must be part of the key";
  EXPECT_FALSE(buffer.peek(key_of(2, 2))) << "and the job";
  buffer.release(stored->slot);
  EXPECT_FALSE(buffer.peek(key_of(1, 2)));
  EXPECT_EQ(buffer.counters().occupied, 0u);
  EXPECT_EQ(buffer.counters().occupied_high_water, 1u);
}

TEST(HashBuffer, SecondPacketWithTheSameKey_isPushedBack) {
  HashBuffer buffer = small();
  EXPECT_EQ(buffer.write(key_of(1, 2), 0, payload_of(1)), HashBuffer::Wrote::stored);
  EXPECT_EQ(buffer.write(key_of(1, 2), 0, payload_of(2)), HashBuffer::Wrote::taken);
  EXPECT_EQ(std::to_integer<int>(buffer.peek(key_of(1, 2))->payload[0]), 1);
  EXPECT_EQ(buffer.counters().pushed_back_taken, 1u);
}

TEST(HashBuffer, OversizedPacketIsRefused) {
  HashBuffer buffer = small();
  EXPECT_EQ(buffer.write(key_of(1, 2), 0, payload_of(1, kSlotBytes)), HashBuffer::Wrote::stored);
  EXPECT_EQ(buffer.write(key_of(1, 3), 0, payload_of(1, kSlotBytes + 1)),
            HashBuffer::Wrote::too_long);
}

TEST(HashBuffer, ParkedRead_isWokenOnlyByThePacketThatItAwaits) {
  HashBuffer buffer = small();
  EXPECT_EQ(buffer.park(key_of(1, 2), 3), HashBuffer::Parked::parked);
  EXPECT_EQ(buffer.park(key_of(1, 2), 1), HashBuffer::Parked::contested);
  EXPECT_EQ(buffer.park(key_of(1, 4), 3), HashBuffer::Parked::contested);
  EXPECT_FALSE(buffer.peek(key_of(1, 2)))
      << "a parked read reserves a slot without making its packet visible";
  EXPECT_EQ(buffer.counters().occupied, 0u);
  EXPECT_EQ(buffer.write(key_of(1, 5), 0, payload_of(5)), HashBuffer::Wrote::stored);
  EXPECT_EQ(buffer.park(key_of(1, 5), 0), HashBuffer::Parked::present);
  EXPECT_FALSE(buffer.next_woken());
  EXPECT_EQ(buffer.write(key_of(1, 2), 0, payload_of(2)), HashBuffer::Wrote::woke);
  EXPECT_EQ(buffer.next_woken(), 3u);
  EXPECT_FALSE(buffer.next_woken());
  EXPECT_TRUE(buffer.peek(key_of(1, 2)));
  EXPECT_EQ(buffer.counters().parked, 1u);
  EXPECT_EQ(buffer.counters().woke, 1u);
}

TEST(HashBuffer, CancelledRead_leavesNoReservedSlot) {
  HashBuffer buffer = small();
  EXPECT_EQ(buffer.park(key_of(1, 2), 3), HashBuffer::Parked::parked);
  buffer.cancel(3);
  EXPECT_EQ(buffer.write(key_of(1, 2), 0, payload_of(2)), HashBuffer::Wrote::stored);
  EXPECT_FALSE(buffer.next_woken());
  EXPECT_EQ(buffer.park(key_of(1, 3), 3), HashBuffer::Parked::parked);
  EXPECT_EQ(buffer.write(key_of(1, 3), 0, payload_of(2)), HashBuffer::Wrote::woke);
  buffer.cancel(3);
  EXPECT_FALSE(buffer.next_woken()) << "a read cancelled after its wake-up must not be reported";
}

/// Stores packets with distinct keys until one is pushed back; returns the number stored.
std::uint32_t fill(HashBuffer& buffer, std::uint64_t seed) {
  for (std::uint32_t i = 0;; ++i) {
    const PacketKey key = PacketKey::unpack(draw(seed, i) >> 16);
    if (buffer.write(key, 0, {}) == HashBuffer::Wrote::full) return i;
  }
}

TEST(HashBuffer, Buffer_storesItsNominalCapacity_beforeItPushesBack) {
  for (const std::uint32_t slots : {256u, 512u, 2048u}) {
    std::uint32_t nominal = 0;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      HashBuffer buffer({.slots = slots, .slot_bytes = 1, .readers = 1});
      const std::uint32_t fitted = fill(buffer, seed);
      EXPECT_GE(fitted, buffer.home_slots() * 9 / 10) << slots << " slots, seed " << seed;
      if (fitted >= buffer.home_slots()) ++nominal;
      EXPECT_LE(buffer.counters().occupied_high_water, buffer.slots());
    }
    EXPECT_GE(nominal, 45u) << slots << " slots";
  }
}

TEST(HashBuffer, PacketsWithTheKeysOfRealJobs_fitIntoTheBuffer) {
  // The packets have the keys of 32 jobs with 16 child nodes each. Such keys are consecutive, not
  // random.
  HashBuffer buffer({.slots = 640, .slot_bytes = 1, .readers = 1});
  for (std::uint32_t job = 0; job < 32; ++job) {
    for (std::uint32_t node = 0; node < 16; ++node) {
      ASSERT_EQ(buffer.write(key_of(job, node), 0, {}), HashBuffer::Wrote::stored)
          << "job " << job << " node " << node;
    }
  }
}

TEST(HashBuffer, PacketAwaitedByAParkedRead_isStoredEvenIfTheBufferIsFull) {
  HashBuffer buffer({.slots = 20, .slot_bytes = 8, .readers = 2});
  std::uint32_t node = 0;
  // A key has only a few possible slots, so some packets are pushed back before the buffer is full.
  // The loop therefore writes packets until all slots are in use.
  for (; buffer.counters().occupied < buffer.slots(); ++node) {
    static_cast<void>(buffer.write(key_of(1, node), 0, payload_of(node)));
  }
  const PacketKey due = key_of(2, 1);
  EXPECT_EQ(buffer.write(due, 0, payload_of(9)), HashBuffer::Wrote::full);
  EXPECT_EQ(buffer.park(due, 1), HashBuffer::Parked::parked);
  EXPECT_EQ(buffer.counters().landed, 1u);
  EXPECT_EQ(buffer.write(key_of(2, 2), 0, payload_of(9)), HashBuffer::Wrote::full);
  EXPECT_EQ(buffer.write(due, 0, payload_of(9)), HashBuffer::Wrote::woke);
  EXPECT_EQ(buffer.next_woken(), 1u);
  const auto stored = buffer.peek(due);
  ASSERT_TRUE(stored);
  EXPECT_EQ(std::to_integer<int>(stored->payload[0]), 9);
  EXPECT_EQ(buffer.park(key_of(2, 3), 1), HashBuffer::Parked::contested)
      << "the reader's reserved place is in use until the packet is released";
  buffer.release(stored->slot);
  EXPECT_EQ(buffer.park(key_of(2, 3), 1), HashBuffer::Parked::parked);
}

TEST(HashBuffer, DiscardOfAJob_keepsThePacketsOfOtherJobs) {
  HashBuffer buffer = small();
  for (std::uint32_t node = 0; node < 10; ++node) {
    static_cast<void>(buffer.write(key_of(1, node), 0, {}));
    static_cast<void>(buffer.write(key_of(2, node), 0, {}));
  }
  EXPECT_EQ(buffer.discard(static_cast<JobId>(1)), 10u);
  EXPECT_EQ(buffer.counters().occupied, 10u);
  EXPECT_FALSE(buffer.peek(key_of(1, 3)));
  EXPECT_TRUE(buffer.peek(key_of(2, 3)));
}

/// A hash buffer with a map of its expected content.
class Reference {
 public:
  Reference(const HashBuffer::Settings& settings, std::uint32_t nodes, std::uint64_t seed)
      : buffer_(settings), readers_(settings.readers), nodes_(nodes), random_(seed) {
    reader_key_.resize(readers_);
  }

  void step() {
    const PacketKey key = key_of(static_cast<std::uint32_t>(random_.below(3)),
                                 static_cast<std::uint32_t>(random_.below(nodes_)));
    const std::uint64_t what = random_.below(16);
    if (what < 7) return write(key);
    if (what < 12) return take(key);
    if (what < 14) return park(key, static_cast<std::uint32_t>(random_.below(readers_)));
    if (what == 14) return cancel(static_cast<std::uint32_t>(random_.below(readers_)));
    if (random_.chance_ppm(20'000)) return discard();
    wake();
  }
  void check_all() {
    for (const auto& [packed, value] : present_) {
      const auto stored = buffer_.peek(PacketKey::unpack(packed));
      ASSERT_TRUE(stored);
      expect_holds(*stored, value);
    }
    EXPECT_EQ(buffer_.counters().occupied, present_.size());
  }
  const HashBuffer& buffer() const { return buffer_; }

 private:
  static void expect_holds(const HashBuffer::Stored& stored, std::uint64_t value) {
    const auto expected = payload_of(value, value % (kSlotBytes + 1));
    ASSERT_EQ(stored.payload.size(), expected.size());
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), stored.payload.begin()));
    ASSERT_EQ(stored.tag, static_cast<std::uint32_t>(value));
  }
  std::optional<std::uint32_t> reader_of(const PacketKey& key) const {
    for (std::uint32_t r = 0; r < readers_; ++r) {
      if (reader_key_[r] == key) return r;
    }
    return std::nullopt;
  }
  void write(const PacketKey& key) {
    const std::uint64_t value = random_.next();
    const auto payload = payload_of(value, value % (kSlotBytes + 1));
    const auto wrote = buffer_.write(key, static_cast<std::uint32_t>(value), payload);
    const bool was_there = present_.contains(key.packed());
    ASSERT_EQ(wrote == HashBuffer::Wrote::taken, was_there);
    const auto reader = reader_of(key);
    ASSERT_EQ(wrote == HashBuffer::Wrote::woke, reader.has_value());
    if (wrote == HashBuffer::Wrote::full) {
      const std::uint32_t reserve = buffer_.slots() - buffer_.home_slots();
      ASSERT_GE(present_.size() + readers_,
                std::min(HashBuffer::kHomeWindow, buffer_.home_slots()) +
                    std::min(HashBuffer::kReserveWindow, reserve))
          << "a packet was pushed back although a window had room";
    }
    if (reader) {
      woken_.insert(*reader);
      reader_key_[*reader].reset();
    }
    if (wrote == HashBuffer::Wrote::stored || reader) present_[key.packed()] = value;
  }
  void take(const PacketKey& key) {
    const auto stored = buffer_.peek(key);
    const auto known = present_.find(key.packed());
    ASSERT_EQ(stored.has_value(), known != present_.end());
    if (!stored) return;
    expect_holds(*stored, known->second);
    buffer_.release(stored->slot);
    present_.erase(known);
  }
  void park(const PacketKey& key, std::uint32_t reader) {
    // A reader must not park a read before next_woken() has reported the wake-up of its previous
    // read.
    if (woken_.contains(reader)) return;
    const auto parked = buffer_.park(key, reader);
    if (present_.contains(key.packed())) {
      ASSERT_EQ(parked, HashBuffer::Parked::present);
    } else if (reader_of(key) || reader_key_[reader]) {
      ASSERT_EQ(parked, HashBuffer::Parked::contested);
    } else if (parked == HashBuffer::Parked::parked) {
      reader_key_[reader] = key;
    }  // otherwise no slot is free and the reader's landing place holds a packet
  }
  void cancel(std::uint32_t reader) {
    buffer_.cancel(reader);
    reader_key_[reader].reset();
    woken_.erase(reader);
  }
  void wake() {
    while (const auto reader = buffer_.next_woken()) ASSERT_EQ(woken_.erase(*reader), 1u);
    ASSERT_TRUE(woken_.empty());
  }
  void discard() {
    const auto before = present_.size();
    std::erase_if(present_, [](const auto& entry) {
      return PacketKey::unpack(entry.first).job == static_cast<JobId>(1);
    });
    ASSERT_EQ(buffer_.discard(static_cast<JobId>(1)), before - present_.size());
  }

  HashBuffer buffer_;
  std::uint32_t readers_;
  std::uint32_t nodes_;
  Random random_;
  std::map<std::uint64_t, std::uint64_t> present_;
  std::vector<std::optional<PacketKey>> reader_key_;
  std::set<std::uint32_t> woken_;
};

TEST(HashBuffer, Content_duringMillionsOfRandomOperations_equalsThatOfAReferenceMap) {
  struct Shape {
    std::uint32_t slots, readers, nodes, operations;
  };
  // The load of the buffers ranges from nearly empty to more packets than slots. In the smallest
  // buffers almost every key collides.
  for (const Shape shape :
       {Shape{2, 1, 4, 200'000}, Shape{10, 3, 8, 400'000}, Shape{64, 4, 24, 400'000},
        Shape{64, 16, 60, 600'000}, Shape{512, 64, 400, 1'000'000}}) {
    Reference reference({shape.slots, kSlotBytes, shape.readers}, shape.nodes, shape.slots);
    for (std::uint32_t i = 0; i < shape.operations; ++i) {
      reference.step();
      if (testing::Test::HasFatalFailure()) {
        FAIL() << "operation " << i << ", " << shape.slots << " slots";
      }
    }
    reference.check_all();
    const HashBuffer::Counters& counters = reference.buffer().counters();
    EXPECT_GT(counters.woke, 0u);
    EXPECT_GT(counters.pushed_back_taken, 0u);
    EXPECT_LE(counters.reserve_high_water,
              reference.buffer().slots() - reference.buffer().home_slots());
    if (shape.nodes * 3 > 2 * shape.slots) {
      EXPECT_GT(counters.pushed_back_full, 0u);
    }
  }
}

}  // namespace
}  // namespace tutti::trigger
