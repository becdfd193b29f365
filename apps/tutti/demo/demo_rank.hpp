// One rank of `tutti demo`: runs the same collectives by multicast and by the ring.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>

#include "tutti/status.hpp"

namespace tutti::app {

/// The options of `demo-rank`.
struct DemoRankOptions {
  std::uint64_t allgather_bytes = 0;  ///< size of each rank's block in an Allgather, in bytes
  std::uint64_t broadcast_bytes = 0;  ///< size of the message in a Broadcast, in bytes
  int iterations = 10;
  int warmup = 8;
  bool link_bytes = false;
};

/// Registers the hidden subcommand `demo-rank`, which `tutti demo` starts on every rank. Rank 0
/// prints the results as one line of JSON, an array with an object for each collective and
/// algorithm.
void add_demo_rank_command(CLI::App& app, int& exit_code);

}  // namespace tutti::app
