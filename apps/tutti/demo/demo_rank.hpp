// One process of `tutti demo`, which runs the same exchanges by multicast and by the ring.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>

#include "tutti/status.hpp"

namespace tutti::app {

/// The settings of the demonstration's processes.
struct DemoRankOptions {
  std::uint64_t allgather_bytes = 0;  ///< size of each rank's block in an Allgather, in bytes
  std::uint64_t broadcast_bytes = 0;  ///< size of the message in a Broadcast, in bytes
  int iterations = 10;
  int warmup = 8;
  bool link_bytes = false;
};

/// Registers `demo-rank`, which `tutti demo` starts and the help hides. Rank 0 prints the results
/// as one line of JSON: an array of {operation, algorithm, size_bytes, p50_ns, wrong_bytes,
/// sent_bytes_by_rank, ports}.
void add_demo_rank_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
