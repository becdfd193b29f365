#include "studies/offload/offload_latency.hpp"

namespace tutti::simulation {
namespace {

double seconds_of(std::uint64_t bits_per_second, std::uint64_t bytes) {
  return static_cast<double>(bytes) * 8 / static_cast<double>(bits_per_second);
}

}  // namespace

double broadcast_formula(const OffloadLatency& latency, std::uint64_t startup_bytes) {
  const double transfer =
      2 * to_seconds(latency.message()) + seconds_of(latency.memory_bits_per_second, startup_bytes);
  return 1 + to_seconds(latency.poll) / transfer;
}

double reduce_formula(const OffloadLatency& latency, std::uint64_t startup_bytes) {
  const double host = to_seconds(latency.message()) +
                      seconds_of(latency.memory_bits_per_second, startup_bytes) +
                      seconds_of(latency.compute_bits_per_second, startup_bytes);
  return host /
         (to_seconds(latency.network) + seconds_of(latency.link_bits_per_second, startup_bytes));
}

}  // namespace tutti::simulation
