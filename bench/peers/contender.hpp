// The harness of every measured program, for any library: common start, data check, counter window,
// printed line. Defined by README.md in this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::bench {

/// One collective with its buffers. `bytes` is the vector (broadcast, allreduce) or each rank's
/// block (allgather: of the input; reduce_scatter: of the output). Reductions sum floats.
struct Work {
  enum class Kind { broadcast, allgather, reduce_scatter, allreduce };
  Kind kind = Kind::broadcast;
  const std::byte* input = nullptr;  ///< unused for broadcast
  std::byte* output = nullptr;
  std::size_t bytes = 0;
};

/// The library under measurement, as one rank sees it. All calls are collective and blocking; a
/// failure throws std::runtime_error or ends the program.
class Contender {
 public:
  virtual ~Contender() = default;
  /// Name and version of the library, as the library reports them.
  virtual std::string version() const = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual void barrier() = 0;
  /// Broadcasts rank 0's `bytes` at `data` to every rank.
  virtual void broadcast(std::byte* data, std::size_t bytes) = 0;
  /// Gathers every rank's `bytes` at `input` into `output` at every rank, in rank order (ranks() *
  /// bytes).
  virtual void allgather(const std::byte* input, std::byte* output, std::size_t bytes) = 0;
  virtual void reduce_scatter(const std::byte* input, std::byte* output, std::size_t bytes);
  virtual void allreduce(const std::byte* input, std::byte* output, std::size_t bytes);
  /// Starts a collective and returns. Collectives of different lanes (0 and 1) may overlap.
  virtual void start(const Work& work, int lane);
  /// Waits for all started collectives.
  virtual void finish();
  /// Returns every rank's value in rank order at rank 0; empty elsewhere. Not measured.
  virtual std::vector<std::int64_t> gather(std::int64_t value) = 0;
  /// Returns rank 0's value at every rank. Not measured.
  virtual std::int64_t share(std::int64_t value) = 0;

 private:
  [[noreturn]] void lacks(const char* what) const;
};

struct Options {
  std::string name = "unnamed";  ///< label in each printed line
  /// Also reduce_scatter, allreduce and barrier. `pair` starts an allgather and a reduce_scatter
  /// together. `loop_` with barrier, broadcast or allgather reports the mean of many calls in
  /// sequence. `overlap_` with a collective starts it, does work that takes as long as the
  /// collective alone, then waits.
  std::vector<std::string> operations = {"none", "broadcast", "allgather"};
  std::vector<std::size_t> sizes = {
      65536};  ///< vector (broadcast) or each rank's block (allgather), in bytes
  int iterations = 10;
  int warmup = 2;
  std::int64_t lead_us = 2000;  ///< from the agreement on the start to the start
  std::string gate;             ///< path of the orchestrator's socket; empty: no counter window
};

/// The known operations.
std::vector<std::string> operation_names();

/// Removes the options it knows from the command line; the others remain in `rest`. Throws
/// std::runtime_error naming an option with a bad or missing value.
Options parse_options(int argc, char** argv, std::vector<std::string>& rest);

/// Measures every (operation, size) of `options` and prints one JSON line for each at rank 0.
/// Returns the number of wrong bytes over all ranks, at every rank.
std::int64_t measure_all(Contender& contender, const Options& options);

}  // namespace tutti::bench
