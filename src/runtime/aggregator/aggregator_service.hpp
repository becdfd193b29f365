// The aggregator, a process near the switch. It is a member of one communicator for each of its
// jobs, and reduces the data that the ranks of the job write to it. One thread listens, one thread
// for each job joins and leaves the job's communicator, and one progress thread serves all jobs.
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
  Endpoint listen;  ///< address to listen at; host "": every address, port 0: a free port
  ServiceKey key;   ///< key of the service, as find_service_key returns it
  /// Network interface for the jobs' traffic. If empty, TUTTI_INTERFACE names the interface; if
  /// this variable is not set either, the interface is chosen automatically.
  std::string interface;
  /// All aggregator windows together may use at most this many bytes.
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;
  std::uint32_t jobs = 32;     ///< at most this many communicators are served at a time
  engine::WindowConfig terms;  ///< window for each job; it has fewer slots if memory is short
  /// Time after the start of a connection within which its request must arrive.
  Nanoseconds hello_timeout = std::chrono::seconds(2);
  /// Longest wait for the start of an admitted job, which asks its other aggregators first, and
  /// then for its ranks to join.
  Nanoseconds begin_timeout = std::chrono::seconds(60);
  /// At most this many connections may be open whose request has not arrived yet (see
  /// Strangers::limits). If there are more, one of them is closed.
  std::size_t max_strangers = 128;
  /// Receives one line of log for each job that joins, ends or fails, and at most ten lines a
  /// second for refused connections. Any thread of the service may call it.
  std::function<void(const std::string&)> log;
  std::shared_ptr<device::Device> device;  ///< device to use instead of `ip`, for tests
};

/// Serves jobs from start() until its destruction. The destructor ends the jobs under way: their
/// ranks get an error that names the aggregator. A job that fails is dropped without affecting the
/// others.
class AggregatorService {
 public:
  static Result<std::unique_ptr<AggregatorService>> start(AggregatorOptions options);
  ~AggregatorService();
  AggregatorService(const AggregatorService&) = delete;
  AggregatorService& operator=(const AggregatorService&) = delete;

  std::uint16_t port() const;
  /// Number of admitted communicators that have not ended yet.
  std::uint32_t jobs() const;
  /// Names and values of the counters: every protocol counter, summed over the present and the
  /// ended jobs, and "connections_refused".
  std::vector<std::pair<std::string, std::uint64_t>> counters() const;

 private:
  class Parts;
  explicit AggregatorService(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tutti::runtime
