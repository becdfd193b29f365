// Tests atomics over the devices `ip` and `host`. Several ranks, each in a thread of its own,
// change words of rank 0. No atomic may be lost or executed twice, although frames of `ip` are
// lost and repeated.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "bitwise_atomics.hpp"
#include "count_wanted.hpp"
#include "device/atomics.hpp"
#include "device/host/host_device.hpp"
#include "device/ip/ip_device.hpp"
#include "runtime/progress/clock.hpp"

namespace tutti::device {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::uint64_t kAdds = 2'000;  ///< number of additions by each rank
constexpr std::size_t kOpen = 16;       ///< limit of the outstanding atomics of a rank

/// Drops about one frame in ten and duplicates about one in ten, at random.
class Faults final : public FrameTap {
 public:
  unsigned copies(Rank, Rank, std::size_t) override {
    const std::uint64_t drawn = draw(5, frames_.fetch_add(1)) % 10;
    return drawn == 0 ? 0 : drawn == 1 ? 2 : 1;
  }

 private:
  std::atomic<std::uint64_t> frames_{0};
};

class DeviceAtomics : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ip::IpOptions ip;
    ip.interface = "lo";
    ip.local_only = true;
    ip.tap = std::make_shared<Faults>();
    std::unique_ptr<Device> device;
    if (GetParam() == std::string("ip")) device = std::make_unique<ip::IpDevice>(ip);
    if (GetParam() == std::string("host")) device = std::make_unique<host::HostDevice>();
    EndpointOptions options;
    options.size = kRanks;
    options.communicator = 3;
    for (std::uint32_t r = 0; r < kRanks; ++r) options.local_ranks.push_back(rank_of(r));
    options.peer_timeout = std::chrono::seconds(10);
    for (std::size_t i = 0; i < options.group_seed.size(); ++i)
      options.group_seed[i] =
          static_cast<std::byte>(draw(static_cast<std::uint64_t>(::getpid()), i));
    std::vector<std::vector<std::byte>> addresses;
    for (std::uint32_t r = 0; r < kRanks; ++r) {
      options.rank = rank_of(r);
      auto endpoint = device->open(options);
      ASSERT_TRUE(endpoint.ok()) << endpoint.status().to_string();
      addresses.push_back((*endpoint)->address());
      endpoints_.push_back(std::move(*endpoint));
    }
    for (auto& one : endpoints_) {
      ASSERT_TRUE(one->use_secret(std::vector<std::byte>(32, std::byte{7})).ok());
      ASSERT_TRUE(one->connect(addresses).ok());
      ASSERT_TRUE(one->capabilities().has(Capability::masked_atomics));
    }
    key_ = *endpoints_[0]->register_memory(std::as_writable_bytes(std::span(words_)));
  }

  /// An atomic that `run` posts to one of the words of rank 0.
  struct Drawn {
    Opcode opcode = Opcode::fetch_add;
    std::uint32_t word = 0;
    AtomicOperands operands{};
  };

  /// Posts `count` atomics, each drawn by `draw`, with at most kOpen outstanding. Calls `answered`
  /// with the index of each atomic and the old value of its word.
  template <typename Draw, typename Answered>
  void run(std::uint32_t rank, std::uint64_t count, const Draw& draw, const Answered& answered) {
    Endpoint& mine = *endpoints_[rank];
    std::array<std::array<std::byte, kAtomicBytes>, kOpen> old;
    std::array<Completion, kOpen> done;
    std::uint64_t posted = 0;
    std::uint64_t completed = 0;
    while (completed < count) {
      for (; posted < count && posted - completed < kOpen; ++posted) {
        const Drawn drawn = draw();
        WorkRequest request{.opcode = drawn.opcode,
                            .peer = Rank{0},
                            .work_id = posted,
                            .local = old[posted % kOpen],
                            .remote_key = key_,
                            .remote_offset = kAtomicBytes * drawn.word};
        request.atomic = drawn.operands;
        EXPECT_TRUE(mine.post(runtime::now(), request).ok());
      }
      const std::size_t polled = mine.poll(runtime::now(), done);
      for (const Completion& one : std::span(done).first(polled)) {
        if (!is_atomic(one.opcode)) continue;
        EXPECT_EQ(one.code, Code::ok);
        EXPECT_EQ(one.work_id, completed) << "atomics to one peer complete in the order posted";
        answered(one.work_id, old_value(mine.capabilities(), old[one.work_id % kOpen]));
        ++completed;
      }
      if (polled == 0) std::this_thread::yield();
    }
    while (!mine.quiet()) mine.poll(runtime::now(), done);
    ended_.fetch_add(1);
  }

  /// Runs `of_rank` for each other rank in a thread of its own, while rank 0 serves the atomics.
  /// Calls `meanwhile` after each poll of rank 0.
  template <typename OfRank, typename Meanwhile>
  void serve(const OfRank& of_rank, const Meanwhile& meanwhile) {
    std::vector<std::thread> threads;
    for (std::uint32_t r = 1; r < kRanks; ++r) threads.emplace_back([&, r] { of_rank(r); });
    std::array<Completion, kOpen> done;
    while (ended_.load() < kRanks - 1) {
      endpoints_[0]->poll(runtime::now(), done);
      meanwhile();
      std::this_thread::yield();
    }
    for (std::thread& one : threads) one.join();
  }

  /// Checks that frames were in fact lost and repeated.
  void expect_faults() const {
    if (GetParam() == std::string("host")) return;  // in shared memory no frame is lost or repeated
    EXPECT_GT(endpoints_[1]->counters().reliable_frames_resent, 0u);
    EXPECT_GT(endpoints_[0]->counters().reliable_frames_duplicate, 0u);
  }

  static constexpr std::uint64_t kFields = 0x8000'8000'8000'8000;

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::array<std::uint64_t, kRanks> words_{};
  MemoryKey key_;
  std::atomic<std::uint32_t> ended_{0};
};

INSTANTIATE_TEST_SUITE_P(DeviceAtomics, DeviceAtomics, testing::Values("ip", "host"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(DeviceAtomics, ConcurrentAdditionsOfAllRanks_areCountedOnceEach) {
  std::vector<std::vector<std::uint64_t>> answers(kRanks);
  const auto add_one_to = [](std::uint32_t field) {
    return AtomicOperands::fetch_add(std::uint64_t{1} << 16 * field, kFields);
  };
  std::uint64_t own = 0;
  serve(
      [&](std::uint32_t r) {
        run(
            r, kAdds, [&] { return Drawn{.operands = add_one_to(r % 2)}; },
            [&](std::uint64_t, std::uint64_t old) { answers[r].push_back(old); });
      },
      [&] {  // rank 0 adds to a field that no other rank changes
        (void)execute(AtomicKind::fetch_add, std::as_writable_bytes(std::span(words_).first(1)),
                      add_one_to(2));
        ++own;
      });
  EXPECT_EQ(words_[0] & 0xffff, kAdds) << "rank 2 adds to this field";
  EXPECT_EQ(words_[0] >> 16 & 0xffff, 2 * kAdds) << "ranks 1 and 3 add to this field";
  EXPECT_EQ(words_[0] >> 32 & 0xffff, own & 0xffff);
  EXPECT_EQ(endpoints_[0]->counters().atomics_served, 3 * kAdds);
  // Every value that the counter had before an addition must be the answer to exactly one addition.
  std::vector<std::uint64_t> shared;
  for (const std::uint32_t r : {1u, 3u}) {
    for (const std::uint64_t one : answers[r]) shared.push_back(one >> 16 & 0xffff);
  }
  std::sort(shared.begin(), shared.end());
  std::vector<std::uint64_t> all(2 * kAdds);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(shared, all);
  expect_faults();
}

TEST_P(DeviceAtomics, RandomAtomics_giveTheResultsOfTheBitwiseReference) {
  const std::uint64_t cases = test::count_wanted("TUTTI_TEST_DEVICE_ATOMICS", 6'000);
  const std::uint64_t each = (cases + kRanks - 2) / (kRanks - 1);
  std::array<std::uint64_t, kRanks> meant{};
  std::atomic<std::uint64_t> wrong{0};
  serve(
      [&](std::uint32_t r) {
        Random random(r);
        std::array<std::uint64_t, kOpen> expected{};
        std::uint64_t drawn = 0;
        run(
            r, each,
            [&] {
              const Opcode opcode = random.below(2) == 0 ? Opcode::compare_swap : Opcode::fetch_add;
              const auto operands = test::draw_operands(meant[r], [&] { return random.next(); });
              expected[drawn++ % kOpen] = meant[r];
              meant[r] = test::value_by_bits(atomic_kind(opcode), meant[r], operands);
              return Drawn{opcode, r, operands};
            },
            [&](std::uint64_t number, std::uint64_t old) {
              if (old != expected[number % kOpen]) wrong.fetch_add(1);
            });
      },
      [] {});
  EXPECT_EQ(words_, meant);
  EXPECT_EQ(wrong.load(), 0u) << "old values";
  EXPECT_EQ(endpoints_[0]->counters().atomics_served, (kRanks - 1) * each);
  expect_faults();
  std::printf("[ figures  ] %s: %llu random atomics give the results of the pseudocode\n",
              GetParam(), static_cast<unsigned long long>((kRanks - 1) * each));
}

TEST_P(DeviceAtomics, Atomic_onAWordThatIsUnalignedOrNotRegistered_isRefused) {
  std::uint64_t of_rank_2 = 0;
  const MemoryKey foreign =
      *endpoints_[2]->register_memory(std::as_writable_bytes(std::span(&of_rank_2, 1)));
  std::array<std::byte, kAtomicBytes> old{};
  WorkRequest request{.opcode = Opcode::fetch_add, .peer = Rank{0}, .local = old};
  request.atomic = AtomicOperands::fetch_add(1);
  const auto post = [&](MemoryKey key, std::uint64_t offset) {
    request.remote_key = key;
    request.remote_offset = offset;
    return endpoints_[1]->post(runtime::now(), request).code();
  };
  EXPECT_EQ(post(key_, 4), Code::invalid_argument) << "unaligned";
  EXPECT_EQ(post(foreign, 0), Code::ok) << "refused by rank 0";
  EXPECT_EQ(post(MemoryKey{key_.key + 1}, 0), Code::ok) << "refused by rank 0";
  EXPECT_EQ(post(key_, sizeof words_), Code::ok) << "refused by rank 0";
  std::vector<Code> codes;
  std::array<Completion, kOpen> done;
  while (codes.size() < 3) {
    endpoints_[0]->poll(runtime::now(), done);
    const std::size_t count = endpoints_[1]->poll(runtime::now(), done);
    for (const Completion& one : std::span(done).first(count)) {
      if (is_atomic(one.opcode)) codes.push_back(one.code);
    }
  }
  EXPECT_EQ(codes, std::vector<Code>(3, Code::invalid_argument));
  EXPECT_EQ(words_, (std::array<std::uint64_t, kRanks>{}));
  EXPECT_EQ(of_rank_2, 0u);
  EXPECT_EQ(endpoints_[0]->counters().atomics_served, 0u);
}

}  // namespace
}  // namespace tutti::device
