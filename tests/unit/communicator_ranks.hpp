// Runs the ranks of a communicator as threads of this process, with long timeouts and
// distinguishable data.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/communicator/create.hpp"
#include "tutti/communicator.hpp"

namespace tutti::test {

inline constexpr Nanoseconds kLong = std::chrono::seconds(60);

using Bytes = std::vector<std::byte>;
using Counters = std::map<std::string, std::uint64_t>;

/// Bytes that differ for every seed.
inline Bytes pattern(std::size_t size, std::uint64_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(draw(seed, i / 8) >> (i % 8 * 8));
  return bytes;
}

/// Options with long timeouts, because a peer on a busy machine may answer late.
inline CommunicatorOptions patient() {
  CommunicatorOptions options;
  options.peer_timeout = kLong;
  options.create_timeout = kLong;
  options.segment_bytes = 1408;  // size of UC fragments that fit into an Ethernet frame
  return options;
}

/// The ranks at fault as numbers, which a failed check can print.
inline std::vector<std::uint32_t> ranks_of(const Status& status) {
  std::vector<std::uint32_t> numbers;
  for (const Rank rank : status.ranks()) numbers.push_back(index(rank));
  return numbers;
}

inline Counters counters_of(const Communicator& communicator) {
  const auto list = communicator.counters();
  return {list.begin(), list.end()};
}

/// The growth of a counter between two readings.
inline std::uint64_t grown(const Counters& before, const Counters& after, const char* name) {
  return after.at(name) - before.at(name);
}

/// The request of a call whose start must succeed; empty if it failed.
inline Request begun(Result<Request> request) {
  EXPECT_TRUE(request.ok()) << request.status().to_string();
  return request.ok() ? std::move(*request) : Request();
}

/// Waits for the end of a collective that must succeed.
inline void finish(Result<Request> request) {
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  const Status status = request->wait_for(kLong);
  ASSERT_TRUE(status.ok()) << status.to_string();
}

/// Expects that `all` consists of the blocks of all ranks, where rank r has contributed
/// pattern(bytes, seed + r).
inline void expect_blocks(std::span<const std::byte> all, std::size_t bytes, std::uint32_t ranks,
                          std::uint64_t seed = 0) {
  ASSERT_EQ(all.size(), ranks * bytes);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const Bytes expected = pattern(bytes, seed + r);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.subspan(r * bytes).begin()))
        << bytes << " bytes of rank " << r;
  }
}

/// The value of an option or, if the option is empty, of the environment variable `variable`.
inline std::string asked_for(const std::string& option, const char* variable) {
  const char* text = std::getenv(variable);
  return !option.empty() || text == nullptr ? option : text;
}

/// Checks that the communicator uses the device that the environment names, because each test runs
/// again with other environment variables.
inline void check_way(const Communicator& communicator, const CommunicatorOptions& options) {
  const std::string device = asked_for(options.device_name, "TUTTI_DEVICE");
  if (options.device || communicator.size() == 1 || (device != "ip" && device != "host")) return;
  EXPECT_EQ(communicator.device(), device);
  if (device != "ip") return;
  const bool by_uc = asked_for(options.multicast, "TUTTI_MULTICAST") == "uc";
  const char* const way = by_uc ? "UC multicast" : "UD multicast";
  EXPECT_NE(communicator.describe().find(way), std::string::npos) << communicator.describe();
}

using RankBody = std::function<void(Communicator&)>;

/// Creates a communicator of `size` ranks, one thread each, and runs `body` on each.
inline void on_ranks(std::uint32_t size, const CommunicatorOptions& options, const RankBody& body) {
  auto bootstraps = runtime::make_local_bootstraps(size);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto communicator = runtime::create_communicator(*bootstraps[rank], options);
      ASSERT_TRUE(communicator.ok()) << communicator.status().to_string();
      EXPECT_EQ(index(communicator->rank()), rank);
      EXPECT_EQ(communicator->size(), size);
      check_way(*communicator, options);
      body(*communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tutti::test
