// Tests atomics over the devices `ip` and `host`: ranks with a thread each add to one word, some of
// their frames are lost or repeated, and no addition is lost or counted twice.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "device/atomics.hpp"
#include "device/host/host_device.hpp"
#include "device/ip/ip_device.hpp"
#include "runtime/progress/clock.hpp"

namespace tutti::device {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::uint64_t kAdds = 2'000;  ///< number of additions by each rank
constexpr std::size_t kOpen = 16;       ///< atomics that a rank has under way

/// Loses one frame of ten and repeats another.
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
    key_ = *endpoints_[0]->register_memory(std::as_writable_bytes(std::span(&word_, 1)));
  }

  /// Adds 1 to a 16-bit field of the word, many times, and returns the old values in order.
  std::vector<std::uint64_t> add(std::uint32_t rank) {
    Endpoint& mine = *endpoints_[rank];
    std::array<std::array<std::byte, kAtomicBytes>, kOpen> old;
    std::vector<std::uint64_t> answers;
    std::uint64_t posted = 0;
    std::array<Completion, kOpen> done;
    while (answers.size() < kAdds) {
      for (; posted < kAdds && posted - answers.size() < kOpen; ++posted) {
        WorkRequest request{.opcode = Opcode::fetch_add,
                            .peer = Rank{0},
                            .work_id = posted,
                            .local = old[posted % kOpen],
                            .remote_key = key_};
        request.atomic = AtomicOperands::fetch_add(std::uint64_t{1} << 16 * (rank % 2), kFields);
        EXPECT_TRUE(mine.post(runtime::now(), request).ok());
      }
      const std::size_t count = mine.poll(runtime::now(), done);
      for (const Completion& one : std::span(done).first(count)) {
        if (one.opcode != Opcode::fetch_add) continue;
        EXPECT_EQ(one.code, Code::ok);
        answers.push_back(old_value(mine.capabilities(), old[one.work_id % kOpen]));
      }
      if (count == 0) std::this_thread::yield();
    }
    while (!mine.quiet()) mine.poll(runtime::now(), done);
    ended_.fetch_add(1);
    return answers;
  }

  static constexpr std::uint64_t kFields = 0x8000'8000'8000'8000;

  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  alignas(8) std::uint64_t word_ = 0;
  MemoryKey key_;
  std::atomic<std::uint32_t> ended_{0};
};

INSTANTIATE_TEST_SUITE_P(DeviceAtomics, DeviceAtomics, testing::Values("ip", "host"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(DeviceAtomics, ConcurrentAdditionsOfAllRanks_areCountedOnceEach) {
  std::vector<std::vector<std::uint64_t>> answers(kRanks);
  std::vector<std::thread> threads;
  for (std::uint32_t r = 1; r < kRanks; ++r) threads.emplace_back([&, r] { answers[r] = add(r); });
  // Rank 0 serves the others, and adds to a field of its own.
  std::array<Completion, kOpen> done;
  std::uint64_t own = 0;
  while (ended_.load() < kRanks - 1) {
    endpoints_[0]->poll(runtime::now(), done);
    (void)execute(AtomicKind::fetch_add, std::as_writable_bytes(std::span(&word_, 1)),
                  AtomicOperands::fetch_add(std::uint64_t{1} << 32, kFields));
    ++own;
    std::this_thread::yield();
  }
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(word_ & 0xffff, kAdds) << "rank 2 adds to this field";
  EXPECT_EQ(word_ >> 16 & 0xffff, 2 * kAdds) << "ranks 1 and 3 add to this field";
  EXPECT_EQ(word_ >> 32 & 0xffff, own & 0xffff);
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
  if (GetParam() == std::string("ip")) {
    EXPECT_GT(endpoints_[1]->counters().reliable_frames_resent, 0u);
    EXPECT_GT(endpoints_[0]->counters().reliable_frames_duplicate, 0u);
  }
}

}  // namespace
}  // namespace tutti::device
