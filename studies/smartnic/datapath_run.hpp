// Runs the receive datapath on an interface's own processor [Khalilov24] 5.2, 6.3. Each hardware
// thread runs the engine's receive worker with chunk map and staging on real bytes; only time is
// modelled.
//
// A client sends to one connection per thread, in turn and at link rate, but at most a window of
// chunks ahead of the posted receives. A thread takes one completion at a time. Its instructions
// share the core's issue slot, its accesses the core's memory path and its doorbells the interface;
// all other waiting times of threads overlap.
//
// With staging (UD) the interface copies a chunk over the bus and posts the staging slot again
// after the copy. Without staging (UC) a chunk arrives at its destination.
#pragma once

#include <cstdint>

#include "studies/smartnic/nic_model.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

struct DatapathSpec {
  bool staging = false;  ///< whether chunks pass through staging (UD) or not (UC)
  /// Number of threads, each with a block of the buffer, assigned core by core.
  std::uint32_t threads = 1;
  /// Bytes of one completion; by UC a chunk has several packets.
  std::uint32_t chunk_bytes = 4096;
  std::uint64_t buffer_bytes = 8u << 20;  ///< bytes received in one operation
  std::uint32_t packet_bytes = 4096;      ///< largest payload of a packet, in bytes
  std::uint64_t link_bits_per_second = 200'000'000'000;
  /// Number of chunks in the window of a connection, and of its staging slots.
  std::uint32_t window_chunks = 128;
  /// Latency of the link in each direction; credits to the client take this long.
  sim::Picoseconds link_latency = sim::nanoseconds(600);
  sim::ThreadedProcessor processor{};
  sim::BusSettings bus{};  ///< bus to the host's memory, which completions do not pass
  /// Latency of a loopback write by the interface, before the bus.
  sim::Picoseconds copy_latency = sim::microseconds(1);
  /// Time of the client from the start to the first packet and from the last byte to the end.
  sim::Picoseconds operation_cost = sim::kOperationCost;
  std::uint64_t seed = 1;  ///< seed of the times of single memory accesses
};

struct DatapathReport {
  sim::Picoseconds time;  ///< time that the client measures
  std::uint64_t completions = 0;
  std::uint64_t wrong_bytes = 0;     ///< number of wrong bytes in the buffer at the end
  std::uint64_t chunks_missing = 0;  ///< number of chunks missing from the chunk map at the end
  /// Largest number of staging slots of one connection in use at once.
  std::uint32_t most_staged = 0;
  std::uint64_t digest = 0;
  double completions_per_second = 0;
  double bytes_per_second = 0;
  /// Cycles from one completion to the next of a thread while all threads are busy.
  double cycles_per_completion = 0;
};

/// The cost of one completion from [Khalilov24] table I: sim::kUnreliableConnected (UC) or
/// sim::kUnreliableDatagram (UD).
const sim::CompletionWork& work_of(const DatapathSpec& spec);

/// Runs one operation. Error: more threads than the processor has, or more than there are chunks.
Result<DatapathReport> run_datapath(const DatapathSpec& spec);

/// The largest payload rate of the link, after headers.
double link_bytes_per_second(const DatapathSpec& spec);

/// The smallest power of two of threads with which an operation of this length reaches `share` of
/// the link's payload rate; 0 if no number does.
Result<std::uint32_t> threads_for_link(DatapathSpec spec, double share);

}  // namespace tutti::simulation
