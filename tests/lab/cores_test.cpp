// Tests which cores each host and aggregator of a lab gets. No lab is built.
#include "lab/cores.hpp"
#include "requirements.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tutti::lab {
namespace {

/// Counts for each core how many of the shares `first` to `last` - 1 contain it. A share is the set
/// of cores of one host or aggregator.
std::vector<int> users_of_cores(const std::vector<cpu_set_t>& shares, std::size_t first,
                                std::size_t last) {
  std::vector<int> users(CPU_SETSIZE);
  for (std::size_t place = first; place < last; ++place) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      users[static_cast<std::size_t>(core)] += CPU_ISSET(core, &shares[place]) ? 1 : 0;
    }
  }
  return users;
}

/// Restricts this process to `count` cores for a test, or to all cores if there are fewer.
class FewerCores {
 public:
  explicit FewerCores(int count) {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t few;
    CPU_ZERO(&few);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&few) < count; ++core) {
      if (CPU_ISSET(core, &before_)) CPU_SET(core, &few);
    }
    sched_setaffinity(0, sizeof few, &few);
    count_ = CPU_COUNT(&few);
  }
  ~FewerCores() { sched_setaffinity(0, sizeof before_, &before_); }
  FewerCores(const FewerCores&) = delete;
  FewerCores& operator=(const FewerCores&) = delete;

  int count() const { return count_; }

 private:
  cpu_set_t before_;
  int count_ = 0;
};

TEST(SharesOfCores, Cores_withoutAggregators_areDividedEvenlyAmongTheHosts) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const int cores = CPU_COUNT(&allowed);
  EXPECT_TRUE(shares_of_cores(1, 0, CoreShares::traffic).empty())
      << "the only host of a lab uses the caller's cores";
  for (const int hosts : {2, 3, 8, 64}) {
    const std::vector<cpu_set_t> shares = shares_of_cores(hosts, 0, CoreShares::traffic);
    ASSERT_EQ(shares.size(), static_cast<std::size_t>(hosts));
    for (const cpu_set_t& share : shares) EXPECT_GE(CPU_COUNT(&share), 1);
    const std::vector<int> users = users_of_cores(shares, 0, shares.size());
    const int least = cores < hosts ? hosts / cores : 1;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      const int shared_by = users[static_cast<std::size_t>(core)];
      if (!CPU_ISSET(core, &allowed)) {
        EXPECT_EQ(shared_by, 0);
      } else {
        EXPECT_GE(shared_by, least) << "core " << core << " of " << hosts << " hosts";
        EXPECT_LE(shared_by, cores < hosts ? least + 1 : 1);
      }
    }
  }
}

TEST(SharesOfCores, TwoCores_areDividedAmongHostsAndAggregatorsByTheirLoad) {
  const FewerCores two(2);
  if (two.count() < 2) return test::skip_without("cores", "one core");
  struct Case {
    int hosts;
    int aggregators;
    int hosts_beside_the_first;
  };
  for (const Case& one : {Case{8, 1, 2}, Case{4, 1, 1}, Case{8, 2, 4}, Case{2, 1, 0}}) {
    const std::vector<cpu_set_t> shares =
        shares_of_cores(one.hosts, one.aggregators, CoreShares::traffic);
    const auto hosts = static_cast<std::size_t>(one.hosts);
    ASSERT_EQ(shares.size(), hosts + static_cast<std::size_t>(one.aggregators));
    int beside = 0;
    for (std::size_t host = 0; host < hosts; ++host) {
      beside += CPU_EQUAL(&shares[host], &shares[hosts]) ? 1 : 0;
    }
    EXPECT_EQ(beside, one.hosts_beside_the_first) << one.hosts << " hosts";
    const std::vector<int> users = users_of_cores(shares, hosts, shares.size());
    EXPECT_EQ(*std::max_element(users.begin(), users.end()), 1)
        << "aggregators must not share cores with each other";
  }
}

TEST(SharesOfCores, Aggregators_withCoreSharesForHostsOnly_mayUseAllCores) {
  const FewerCores two(2);
  if (two.count() < 2) return test::skip_without("cores", "one core");
  constexpr std::size_t kHosts = 8;
  const std::vector<cpu_set_t> shares = shares_of_cores(kHosts, 2, CoreShares::hosts);
  ASSERT_EQ(shares.size(), kHosts + 2);
  const std::vector<int> hosts = users_of_cores(shares, 0, kHosts);
  EXPECT_EQ(std::count(hosts.begin(), hosts.end(), 4), 2);
  EXPECT_EQ(std::count(hosts.begin(), hosts.end(), 0), CPU_SETSIZE - 2);
  EXPECT_EQ(CPU_COUNT(&shares[kHosts]), 2);
  EXPECT_EQ(CPU_COUNT(&shares[kHosts + 1]), 2);
}

}  // namespace
}  // namespace tutti::lab
