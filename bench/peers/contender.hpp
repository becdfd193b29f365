// The harness of every program that compare.py measures, for any library: common start, data check,
// counter window and printed line. README.md in this folder defines them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::bench {

/// One collective with its buffers. `bytes` is the size of the vector (broadcast, allreduce), of a
/// rank's input block (allgather) or of a rank's output block (reduce_scatter). Reductions sum
/// floats.
struct Work {
  enum class Kind { broadcast, allgather, reduce_scatter, allreduce };
  Kind kind = Kind::broadcast;
  const std::byte* input = nullptr;  ///< input buffer, which a broadcast does not use
  std::byte* output = nullptr;
  std::size_t bytes = 0;
};

/// The library under measurement, as one rank sees it. All calls are collective and blocking; a
/// failure throws std::runtime_error or ends the program.
class Contender {
 public:
  virtual ~Contender() = default;
  /// The name and version of the library, as the library reports them.
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
  /// Starts a collective and returns at once. Collectives of different lanes (0 and 1) may overlap.
  virtual void start(const Work& work, int lane);
  /// Waits for the end of all started collectives.
  virtual void finish();
  /// Returns, at rank 0, the values of all ranks in rank order, and elsewhere an empty list. Not
  /// measured.
  virtual std::vector<std::int64_t> gather(std::int64_t value) = 0;
  /// Returns rank 0's value at every rank. Not measured.
  virtual std::int64_t share(std::int64_t value) = 0;

 private:
  [[noreturn]] void lacks(const char* what) const;
};

struct Options {
  std::string name = "unnamed";  ///< label of the contender in each printed line
  /// Operations to measure, which may also be reduce_scatter, allreduce and barrier. `pair` starts
  /// an allgather and a reduce_scatter together, and `loop_` with barrier, broadcast or allgather
  /// reports the mean of many calls in sequence. `overlap_` with a collective starts it, does work
  /// that takes as long as the collective alone, then waits.
  std::vector<std::string> operations = {"none", "broadcast", "allgather"};
  std::vector<std::size_t> sizes = {
      65536};  ///< size of the vector (broadcast) or of each rank's block (allgather), in bytes
  int iterations = 10;
  int warmup = 2;
  std::int64_t lead_us = 2000;  ///< time from the agreement on a common start to that start, in us
  /// Path of the orchestrator's socket; empty: link counters are not read.
  std::string gate;
};

/// The operations that can be measured.
std::vector<std::string> operation_names();

/// Reads the common options from the command line; all other options remain in `rest`. Throws
/// std::runtime_error naming an option with a bad or missing value.
Options parse_options(int argc, char** argv, std::vector<std::string>& rest);

/// Measures every operation and size of `options` and prints one JSON line for each at rank 0.
/// Returns, at every rank, the number of wrong bytes over all ranks.
std::int64_t measure_all(Contender& contender, const Options& options);

}  // namespace tutti::bench
