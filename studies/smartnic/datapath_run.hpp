// Runs the receive datapath on the processor of a network interface [Khalilov24] 5.2, 6.3. Each
// hardware thread runs the engine's receive worker with chunk map and staging on real bytes; only
// time is modelled.
//
// A client sends chunks at link rate. It serves the connections in turn, one connection per thread,
// and never has more than a window of chunks outstanding on a connection. Threads handle one
// completion at a time. They compete for the issue slot and the memory path of their core and for
// the interface's doorbells; all other latencies overlap.
//
// With staging (UD), the interface copies a chunk over the bus and then posts the staging slot
// again. Without staging (UC), the interface writes a chunk directly to its destination.
#pragma once

#include <cstdint>

#include "studies/smartnic/nic_model.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

struct DatapathSpec {
  bool staging = false;  ///< whether chunks pass through staging (UD) or not (UC)
  /// Number of threads, each of which has a block of the buffer. Threads fill one core after the
  /// other.
  std::uint32_t threads = 1;
  /// Size of a chunk in bytes. A chunk has one completion, and by UC it may have several packets.
  std::uint32_t chunk_bytes = 4096;
  std::uint64_t buffer_bytes = 8u << 20;  ///< bytes received in one operation
  std::uint32_t packet_bytes = 4096;      ///< largest payload of a packet, in bytes
  std::uint64_t link_bits_per_second = 200'000'000'000;
  /// At most this many chunks may be outstanding on a connection. Each connection has the same
  /// number of staging slots.
  std::uint32_t window_chunks = 128;
  /// Latency of the link in each direction, also for the credits that return to the client.
  sim::Picoseconds link_latency = sim::nanoseconds(600);
  sim::ThreadedProcessor processor{};
  sim::BusSettings bus{};  ///< bus to the host's memory; completions do not cross it
  /// Latency of a copy in addition to its time on the bus. The interface copies by a loopback
  /// write.
  sim::Picoseconds copy_latency = sim::microseconds(1);
  /// Sum of the times that the client needs before the first packet and after the last byte.
  sim::Picoseconds operation_cost = sim::kOperationCost;
  std::uint64_t seed = 1;  ///< seed of the random latencies of memory accesses
};

struct DatapathReport {
  sim::Picoseconds time;  ///< duration of the operation as the client measures it
  std::uint64_t completions = 0;
  std::uint64_t wrong_bytes = 0;     ///< number of wrong bytes in the buffer at the end
  std::uint64_t chunks_missing = 0;  ///< number of chunks missing from the chunk map at the end
  /// Peak number of staging slots that one connection had in use.
  std::uint32_t most_staged = 0;
  std::uint64_t digest = 0;
  double completions_per_second = 0;
  double bytes_per_second = 0;
  /// Mean number of cycles that a thread spends on one completion, including its waits for shared
  /// resources.
  double cycles_per_completion = 0;
};

/// The cost of one completion from [Khalilov24] table I: sim::kUnreliableConnected (UC) or
/// sim::kUnreliableDatagram (UD).
const sim::CompletionWork& work_of(const DatapathSpec& spec);

/// Runs one receive operation. Fails with invalid_argument if `spec.threads` exceeds the threads of
/// the processor or the number of chunks, or if a datagram cannot hold a chunk.
Result<DatapathReport> run_datapath(const DatapathSpec& spec);

/// The payload rate of a busy link, without packet headers.
double link_bytes_per_second(const DatapathSpec& spec);

/// The smallest power of two of threads that reaches the fraction `share` of the highest possible
/// rate; 0 if none does. The highest possible rate is that of an operation which takes only its
/// time on the link and `spec.operation_cost`.
Result<std::uint32_t> threads_for_link(DatapathSpec spec, double share);

}  // namespace tutti::simulation
