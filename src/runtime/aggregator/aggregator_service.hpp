// The aggregator: a process near the switch that is a member of its jobs' communicators and reduces
// the data that their ranks write to it. One thread listens, one thread a job joins and leaves it,
// and one progress thread serves all jobs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/aggregate/window_plan.hpp"
#include "runtime/aggregator/aggregator_frame.hpp"
#include "runtime/bootstrap/store/socket.hpp"
#include "tutti/status.hpp"

namespace tutti::device {
class Device;
}

namespace tutti::runtime {

struct AggregatorOptions {
  Endpoint listen;        ///< host "" listens at every address, port 0 takes a free one
  ServiceKey key;         ///< find_service_key
  std::string interface;  ///< of its jobs' traffic; empty: TUTTI_INTERFACE, else chosen
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  ///< for all windows together
  std::uint32_t jobs = 32;                              ///< communicators at a time
  engine::WindowConfig terms;  ///< offered; with fewer slots if memory is short
  /// Receives one line for each job that comes, ends or fails, and each refused connection. Called by
  /// any thread of the service.
  std::function<void(const std::string&)> log;
  std::shared_ptr<device::Device> device;  ///< instead of `ip`
};

/// Serves from start() until its destruction, which ends the jobs under way: their ranks get an
/// error that names the aggregator. A job that fails is dropped without touching the others.
class AggregatorService {
 public:
  static Result<std::unique_ptr<AggregatorService>> start(AggregatorOptions options);
  ~AggregatorService();
  AggregatorService(const AggregatorService&) = delete;
  AggregatorService& operator=(const AggregatorService&) = delete;

  std::uint16_t port() const;
  /// Communicators that it is a member of now.
  std::uint32_t jobs() const;
  /// Every protocol counter by name, of all jobs, those that ended included.
  std::vector<std::pair<std::string, std::uint64_t>> counters() const;

 private:
  class Parts;
  explicit AggregatorService(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tutti::runtime
