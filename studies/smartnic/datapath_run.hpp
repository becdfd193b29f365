// The receive datapath on an interface's own processor [Khalilov24] 5.2, 6.3. Each hardware thread
// runs the engine's receive worker with chunk map and staging on real bytes; only time is modelled.
//
// A client sends to one connection a thread, in turn, at link rate, and at most a window of chunks
// ahead of the posted receives. A thread takes one completion at a time. Its instructions share the
// core's issue slot, its accesses the core's memory path, its doorbells the interface; other
// waiting times of threads overlap.
//
// With staging (UD) the interface copies a chunk over the bus and its place is posted again after
// the copy. Without staging (UC) the chunk arrives at its destination.
#pragma once

#include <cstdint>

#include "studies/smartnic/nic_model.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

struct DatapathSpec {
  bool staging = false;       ///< true: UD; false: UC
  std::uint32_t threads = 1;  ///< threads, each with a block of the buffer, assigned core by core
  std::uint32_t chunk_bytes = 4096;       ///< bytes of one completion; several packets by UC
  std::uint64_t buffer_bytes = 8u << 20;  ///< bytes received in an operation
  std::uint32_t packet_bytes = 4096;      ///< largest payload of a packet, in bytes
  std::uint64_t link_bits_per_second = 200'000'000'000;
  std::uint32_t window_chunks = 128;  ///< window of a connection, and its number of staging places
  /// Also the latency of credits to the client.
  sim::Picoseconds link_latency = sim::nanoseconds(600);
  sim::ThreadedProcessor processor{};
  sim::BusSettings bus{};  ///< bus to the host's memory; completions stay at the interface
  /// Latency of a loopback write, before the bus.
  sim::Picoseconds copy_latency = sim::microseconds(1);
  /// Client time from the start to the first packet, and from the last byte to the end.
  sim::Picoseconds operation_cost = sim::kOperationCost;
  std::uint64_t seed = 1;  ///< seed for the times of single memory accesses
};

struct DatapathReport {
  sim::Picoseconds time;  ///< time that the client measures
  std::uint64_t completions = 0;
  std::uint64_t wrong_bytes = 0;     ///< wrong bytes in the buffer at the end
  std::uint64_t chunks_missing = 0;  ///< chunks missing from the chunk map at the end
  std::uint32_t most_staged = 0;     ///< largest number of places of one connection in use at once
  std::uint64_t digest = 0;
  double completions_per_second = 0;
  double bytes_per_second = 0;
  /// Cycles from completion to completion of a thread while all threads are busy.
  double cycles_per_completion = 0;
};

/// The cost of a completion, from [Khalilov24] table I: sim::kUnreliableConnected or
/// sim::kUnreliableDatagram.
const sim::CompletionWork& work_of(const DatapathSpec& spec);

/// Error: more threads than the processor has, or than there are chunks.
Result<DatapathReport> run_datapath(const DatapathSpec& spec);

/// The largest payload rate of the link, without headers.
double link_bytes_per_second(const DatapathSpec& spec);

/// The smallest power of two of threads that reaches `share` of the link's payload rate in an
/// operation of this length; 0 if none does.
Result<std::uint32_t> threads_for_link(DatapathSpec spec, double share);

}  // namespace tutti::simulation
