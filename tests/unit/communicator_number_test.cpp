// Tests that communicators of the same processes have different numbers.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "communicator_ranks.hpp"
#include "loopback_device.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/hierarchy/hierarchy.hpp"
#include "runtime/progress/clock.hpp"

namespace tutti {
namespace {

using namespace test;

/// A device that records the numbers of the communicators that open it.
class RecordingDevice final : public device::Device {
 public:
  std::string name() const override { return "ip"; }
  Result<std::unique_ptr<device::Endpoint>> open(const device::EndpointOptions& options) override {
    numbers.push_back(options.communicator);
    return inner_.open(options);
  }

  std::vector<std::uint16_t> numbers;

 private:
  device::ip::IpDevice inner_{loopback_options()};
};

TEST(CommunicatorNumber, DuplicatesAndTheirDuplicates_haveDifferentNumbers) {
  const auto device = std::make_shared<RecordingDevice>();
  CommunicatorOptions options = patient();
  options.device = device;
  on_ranks(1, options, [&](Communicator& communicator) {
    auto first = communicator.duplicate(options);
    ASSERT_TRUE(first.ok()) << first.status().to_string();
    auto second = communicator.duplicate(options);
    ASSERT_TRUE(second.ok()) << second.status().to_string();
    auto third = first->duplicate(options);
    ASSERT_TRUE(third.ok()) << third.status().to_string();
    EXPECT_EQ(device->numbers, (std::vector<std::uint16_t>{0, 1, 2, 3}));
  });
}

TEST(CommunicatorNumber, SideCommunicatorsOfSeveralHierarchies_haveDifferentNumbers) {
  constexpr hierarchy::HostLayout kLayout{.hosts = 2, .ranks_per_host = 2};
  auto bootstraps = runtime::make_local_bootstraps(kLayout.ranks());
  const auto run = [&](std::uint32_t rank) {
    auto progress = runtime::Progress::create({});
    ASSERT_TRUE(progress.ok()) << progress.status().to_string();
    const auto device = std::make_shared<RecordingDevice>();
    CommunicatorOptions options = patient();
    options.device = device;
    std::vector<std::shared_ptr<runtime::Hierarchy>> routes;
    for (const bool groups : {true, false, true}) {
      const auto never = [](const CollectiveCall&) { return false; };
      auto made = runtime::Hierarchy::create(*bootstraps[rank], options, kLayout, groups, never,
                                             *progress, crypto::Secret(), {});
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      routes.push_back(std::move(*made));
    }
    const std::set<std::uint16_t> different(device->numbers.begin(), device->numbers.end());
    // Without groups, only the leaders have an across side.
    EXPECT_EQ(different.size(), rank % 2 == 0 ? 6u : 5u);
    EXPECT_EQ(different.size(), device->numbers.size());
    EXPECT_EQ(different.count(0), 0u) << "the communicator of the whole job has this number";
    for (const auto& route : routes) (void)route->close(runtime::now() + kLong);
  };
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < kLayout.ranks(); ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
}

TEST(CommunicatorNumber, RanksThatProposeDifferentNumbers_useTheHighest) {
  auto bootstraps = runtime::make_local_bootstraps(2);
  const auto number_of = [&](std::uint32_t rank, std::uint16_t proposed) {
    auto made = runtime::CommunicatorImpl::create(*bootstraps[rank], patient(), nullptr,
                                                  {.number = proposed});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    EXPECT_EQ((*made)->number(), 9);
  };
  std::thread other([&] { number_of(1, 9); });
  number_of(0, 5);
  other.join();
}

}  // namespace
}  // namespace tutti
