// Tests memory keys: a key is valid only between its registration and its removal, and cannot be
// guessed.
#include "device/rc/memory_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace tutti::device::rc {
namespace {

TEST(MemoryTable, Key_afterItsRemoval_isRefused_thoughItsEntryIsUsedAgain) {
  std::array<std::byte, 64> memory{};
  MemoryTable table;
  std::set<std::uint64_t> removed;
  for (int i = 0; i < 1000; ++i) {
    const auto key = table.add(memory);
    ASSERT_TRUE(key.ok());
    EXPECT_TRUE(table.resolve(key->key, 0, memory.size()));
    EXPECT_TRUE(table.remove(*key));
    EXPECT_FALSE(table.remove(*key));
    removed.insert(key->key);
  }
  EXPECT_EQ(removed.size(), 1000u);
  const auto live = table.add(memory);
  ASSERT_TRUE(live.ok());
  for (const std::uint64_t key : removed) EXPECT_FALSE(table.resolve(key, 0, 0));
  EXPECT_EQ(table.size(), 1u);
}

TEST(MemoryTable, KeysOfOneEntry_differInAboutHalfOfTheirRandomBits) {
  std::array<std::byte, 8> memory{};
  MemoryTable table;
  std::uint64_t previous = 0;
  std::array<int, 64> set{};
  for (int i = 0; i < 4000; ++i) {
    const MemoryKey key = table.add(memory).value();
    table.remove(key);
    for (unsigned bit = 0; bit < 64; ++bit) set[bit] += ((key.key ^ previous) >> bit & 1) != 0;
    previous = key.key;
  }
  for (unsigned bit = 24; bit < 64; ++bit) {
    EXPECT_GT(set[bit], 1700) << "bit " << bit;
    EXPECT_LT(set[bit], 2300) << "bit " << bit;
  }
}

TEST(MemoryTable, KeysFromACounter_areTheSameInEachTable_andNeverRepeat) {
  std::array<std::byte, 8> memory{};
  MemoryTable one(MemoryTable::Keys::counted);
  MemoryTable other(MemoryTable::Keys::counted);
  std::set<std::uint64_t> keys;
  for (int i = 0; i < 100; ++i) {
    const MemoryKey key = one.add(memory).value();
    EXPECT_EQ(other.add(memory).value().key, key.key);
    keys.insert(key.key);
    if (i % 3 == 0) continue;
    one.remove(key);
    other.remove(key);
  }
  EXPECT_EQ(keys.size(), 100u);
}

TEST(MemoryTable, ValidKey_withOneBitFlipped_isRefused) {
  std::array<std::byte, 64> memory{};
  MemoryTable table;
  const MemoryKey key = table.add(memory).value();
  for (unsigned bit = 0; bit < 64; ++bit) {
    EXPECT_FALSE(table.resolve(key.key ^ std::uint64_t{1} << bit, 0, 0)) << "bit " << bit;
  }
  EXPECT_FALSE(table.resolve(0, 0, 0));
}

TEST(MemoryTable, RangeBeyondTheRegion_isRefused) {
  std::array<std::byte, 64> memory{};
  MemoryTable table;
  const MemoryKey key = table.add(memory).value();
  EXPECT_TRUE(table.resolve(key.key, 64, 0));
  EXPECT_FALSE(table.resolve(key.key, 65, 0));
  EXPECT_FALSE(table.resolve(key.key, 1, 64));
  EXPECT_FALSE(table.resolve(key.key, 1, UINT64_MAX));
}

}  // namespace
}  // namespace tutti::device::rc
