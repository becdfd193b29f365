// A job that uses aggregators. Its ranks are threads of this process and communicate over the real
// network stack on loopback.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "device/ip/ip_device.hpp"
#include "reduction/reducer.hpp"
#include "runtime/aggregator/aggregator_client.hpp"
#include "runtime/aggregator/aggregator_service.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/progress.hpp"
#include "sim/fault/fault_device.hpp"

namespace tutti::runtime {

using Counters = std::map<std::string, std::uint64_t>;

inline constexpr Nanoseconds kPatience = std::chrono::seconds(100);
inline constexpr char kKey[] = "0123456789abcdef0123456789abcdef";

/// Window settings of an aggregator. The windows are smaller than almost all vectors of the tests.
inline constexpr engine::WindowConfig kSmall{
    .segment_bytes = 4096, .slots = 4, .pulses = 2, .group_bytes = 8192};

inline ServiceKey service_key(const std::string& text = kKey) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

/// A network device that injects the faults of a fault plan; null if the plan is not valid.
inline std::shared_ptr<device::fault::FaultDevice> faulty_network(const std::string& faults) {
  auto plan = device::fault::FaultPlan::parse(faults);
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  if (!plan) return nullptr;
  auto device = std::make_shared<device::fault::FaultDevice>(*plan);
  device::ip::IpOptions ip;
  ip.local_only = true;
  ip.tap = device->frame_tap();
  device->decorate(std::make_shared<device::ip::IpDevice>(ip));
  return device;
}

inline std::unique_ptr<AggregatorService> start_service(
    const engine::WindowConfig& terms = kSmall, std::shared_ptr<device::Device> device = nullptr,
    std::uint32_t jobs = 32, std::uint16_t port = 0,
    std::uint64_t memory_bytes = AggregatorOptions{}.memory_bytes) {
  AggregatorOptions options;
  options.listen = {"127.0.0.1", port};
  options.key = service_key();
  options.jobs = jobs;
  options.memory_bytes = memory_bytes;
  options.terms = terms;
  options.device = std::move(device);
  auto service = AggregatorService::start(std::move(options));
  EXPECT_TRUE(service.ok()) << service.status().to_string();
  return service ? std::move(*service) : nullptr;
}

inline std::string address_of(const AggregatorService& service) {
  return "127.0.0.1:" + std::to_string(service.port());
}

inline Counters counters_of(const AggregatorService& service) {
  const auto all = service.counters();
  return {all.begin(), all.end()};
}

inline CommunicatorOptions patient(std::shared_ptr<device::Device> device = nullptr) {
  CommunicatorOptions options;
  // A long timeout, because a peer on a busy machine may answer late.
  options.peer_timeout = kPatience;
  options.create_timeout = kPatience;
  options.device = std::move(device);
  return options;
}

/// One rank of the job, with the objects through which the rank uses the aggregators.
struct Member {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::shared_ptr<Progress> progress;
  std::shared_ptr<Aggregation> aggregation;

  Status finish(const Aggregation::Outcome& outcome) const {
    if (!outcome) return outcome.status();
    if (!progress->wait(**outcome, now() + kPatience))
      return Status(Code::timeout, "the call did not complete in time");
    return (*outcome)->status;
  }
  Counters counters() const {
    const auto all = aggregation->counters();
    return {all.begin(), all.end()};
  }
};

/// Runs each rank in a thread of its own: the rank creates its Aggregation object and passes the
/// object, or the error, to `body`.
inline void on_ranks(
    std::uint32_t size, const CommunicatorOptions& options,
    const std::function<void(Member&, const Result<std::shared_ptr<Aggregation>>&)>& body) {
  auto bootstraps = make_local_bootstraps(size);
  const crypto::Secret key;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto progress = Progress::create({.spin = std::chrono::microseconds(20)});
      ASSERT_TRUE(progress.ok()) << progress.status().to_string();
      Member member{rank, size, *progress, nullptr};
      const auto made = Aggregation::create(*bootstraps[rank], options, *progress, key, {});
      if (made) member.aggregation = *made;
      body(member, made);
      member.aggregation.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Like on_ranks(), but expects that every rank joins the aggregators. A rank that does not join
/// does not run `body`.
inline void on_joined_ranks(std::uint32_t size, CommunicatorOptions options,
                            const std::vector<std::string>& aggregators,
                            const std::function<void(Member&)>& body) {
  options.aggregators = aggregators;
  on_ranks(size, options, [&](Member& member, const auto& made) {
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    ASSERT_TRUE(member.aggregation->active());
    body(member);
  });
}

/// The vector of a rank, drawn from the seed. Floats are small numbers, so that few operations end
/// in infinities.
inline std::vector<std::byte> contribution(DataType type, std::size_t count, std::uint64_t seed) {
  std::vector<std::byte> bytes(count * element_bytes(type));
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = draw(seed, i);
    const float small = static_cast<float>(static_cast<std::int64_t>(bits % 4001) - 2000) / 1024;
    const double exact = small;
    std::uint32_t word = 0;
    std::memcpy(&word, &small, 4);
    const auto half = static_cast<std::uint16_t>(word >> 16);
    std::byte* to = bytes.data() + i * element_bytes(type);
    switch (type) {
      case DataType::float64:
        std::memcpy(to, &exact, 8);
        break;
      case DataType::float32:
        std::memcpy(to, &small, 4);
        break;
      case DataType::bfloat16:
        std::memcpy(to, &half, 2);
        break;
      case DataType::float16: {
        // Each float has a random sign and fraction and an exponent near zero.
        const auto value =
            static_cast<std::uint16_t>((bits & 0x83ff) | (13 + bits / 65536 % 4) << 10);
        std::memcpy(to, &value, 2);
        break;
      }
      default:
        std::memcpy(to, &bits, element_bytes(type));
    }
  }
  return bytes;
}

inline std::vector<std::byte> factor_of(DataType type, std::uint32_t rank) {
  return contribution(type, 1, 9000 + rank);
}

/// The result of a reduction, computed by the scalar kernels in the order of `ranks`.
inline std::vector<std::byte> folded(DataType type, ReduceOperation operation,
                                     const std::vector<std::vector<std::byte>>& inputs,
                                     const std::vector<std::uint32_t>& ranks) {
  const auto reducer = reduction::Reducer::create(operation, type)->with_implementation("scalar");
  const std::size_t count = inputs.front().size() / element_bytes(type);
  std::vector<std::byte> result(inputs.front().size());
  std::vector<std::byte> next(result.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::vector<std::byte> factor = factor_of(type, ranks[i]);
    reducer->prepare(i == 0 ? result.data() : next.data(), inputs[ranks[i]].data(), count,
                     factor.data());
    if (i > 0) reducer->accumulate(result.data(), next.data(), count);
  }
  reducer->finish(result.data(), count, static_cast<std::uint32_t>(ranks.size()));
  return result;
}

/// Orders in which the contributions of the ranks are combined. rank_order() is 0, 1, ...;
/// ring_order() begins with the rank after `owner` and ends with `owner`.
inline std::vector<std::uint32_t> rank_order(std::uint32_t size) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t r = 0; r < size; ++r) ranks.push_back(r);
  return ranks;
}
inline std::vector<std::uint32_t> ring_order(std::uint32_t size, std::uint32_t owner) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t i = 1; i <= size; ++i) ranks.push_back((owner + i) % size);
  return ranks;
}

}  // namespace tutti::runtime
