#include "info/self_test.hpp"

#include <array>
#include <thread>

#include "base/error.hpp"
#include "bench/exercise.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/communicator/create.hpp"
#include "runtime/progress/clock.hpp"

namespace tutti::app {
namespace {

constexpr std::uint64_t kBytes = 64 * 1024;
constexpr std::uint64_t kRepetition = 1;

/// Runs one rank of the self-test.
SelfTest take_part(runtime::Bootstrap& bootstrap) {
  SelfTest result;
  result.bytes = kBytes;
  CommunicatorOptions options;
  options.interface = "lo";
  options.create_timeout = std::chrono::seconds(5);
  const Instant begin = runtime::now();
  auto communicator = runtime::create_communicator(bootstrap, options);
  result.status = communicator.status();
  if (!communicator) return result;
  const Instant created = runtime::now();
  result.create_time = created - begin;
  auto exercise =
      Exercise::create(*communicator, {.operation = Operation::broadcast, .send_bytes = kBytes});
  result.status = exercise.status();
  if (!exercise) return result;
  exercise->fill(kRepetition);
  result.status = exercise->run();
  if (!result.status) return result;
  result.broadcast_time = runtime::now() - created;
  if (const auto wrong = exercise->count_wrong(kRepetition); wrong != 0) {
    result.status = failure(Code::internal, "{} of {} received bytes were wrong", wrong, kBytes);
  }
  for (const auto& [name, value] : communicator->counters()) {
    if (name == "device_multicast_datagrams_sent") result.datagrams = value;
  }
  return result;
}

}  // namespace

SelfTest run_self_test() {
  auto bootstraps = runtime::make_local_bootstraps(2);
  std::array<SelfTest, 2> results;
  std::thread other([&] { results[1] = take_part(*bootstraps[1]); });
  results[0] = take_part(*bootstraps[0]);
  other.join();
  SelfTest result = results[1];
  result.datagrams = results[0].datagrams;
  if (result.status.ok()) result.status = results[0].status;
  return result;
}

}  // namespace tutti::app
