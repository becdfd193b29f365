// The receive datapath offloaded to an interface's own processor (row K13): each hardware thread
// runs the engine's receive worker, chunk map, staging and all, on real bytes; only its time is
// modelled.
//
// A client sends to as many connections as there are threads, in turn, at link rate and never more
// than a window of chunks ahead of what a connection has posted. A thread takes one completion at a
// time. Its instructions share the core's issue slot with those of the other threads, its accesses
// share the core's memory path, its doorbells the interface; for the rest it waits, which threads
// do at the same time. With staging (UD) a chunk is copied by the interface over the bus, and its
// place is posted again when the copy is done; without (UC) it lies where it belongs already.
#pragma once

#include <cstdint>

#include "studies/smartnic/nic_model.hpp"
#include "tutti/status.hpp"

namespace tutti::simulation {

struct DatapathSpec {
  bool staging = false;                   ///< UD; else UC
  std::uint32_t threads = 1;              ///< a block of the buffer each, core by core
  std::uint32_t chunk_bytes = 4096;       ///< of a completion; UC: of several packets (K10)
  std::uint64_t buffer_bytes = 8u << 20;  ///< received once
  std::uint32_t packet_bytes = 4096;      ///< payload of a packet at most
  std::uint64_t link_bits_per_second = 200'000'000'000;
  std::uint32_t window_chunks = 128;  ///< of a connection, and its staging places
  sim::Picoseconds link_latency = sim::nanoseconds(600);  ///< also of credits back to the client
  sim::ThreadedProcessor processor{};
  sim::BusSettings bus{};  ///< to the host's memory; completions stay where the threads are
  sim::Picoseconds copy_latency = sim::microseconds(1);  ///< of a loopback write, before the bus
  /// From the client's start to the first packet, and from the last byte until it hears of the end.
  sim::Picoseconds operation_cost = sim::kOperationCost;
  std::uint64_t seed = 1;  ///< of how long single memory accesses take
};

struct DatapathReport {
  sim::Picoseconds time;  ///< as the client measures it
  std::uint64_t completions = 0;
  std::uint64_t wrong_bytes = 0;     ///< of the buffer, at the end
  std::uint64_t chunks_missing = 0;  ///< by the chunk map, at the end
  std::uint32_t most_staged = 0;     ///< places of one connection in use at one time
  std::uint64_t digest = 0;
  double completions_per_second = 0;
  double bytes_per_second = 0;
  /// Cycles from completion to completion of one thread, as it is while all are busy.
  double cycles_per_completion = 0;
};

/// What a completion costs, from Table I: sim::kUnreliableConnected or sim::kUnreliableDatagram.
const sim::CompletionWork& work_of(const DatapathSpec& spec);

/// Refused where there are more threads than the processor has, or than chunks.
Result<DatapathReport> run_datapath(const DatapathSpec& spec);

/// Payload that the link carries at most, headers taken off.
double link_bytes_per_second(const DatapathSpec& spec);

/// The fewest threads, among powers of two, that bring `share` of what the link carries in an
/// operation of this length; 0 where none do.
Result<std::uint32_t> threads_for_link(DatapathSpec spec, double share);

}  // namespace tutti::simulation
