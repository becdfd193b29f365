// The measuring code of all programs that compare.py runs; each program measures one library. The
// code agrees on a common start of all ranks, checks the data, marks when counters are read and
// prints the results. README.md in this folder defines these steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::bench {

/// One collective with its buffers. `bytes` is the size of the vector (broadcast, allreduce), of a
/// rank's input block (allgather) or of a rank's output block (reduce_scatter). allreduce and
/// reduce_scatter compute sums of floats.
struct Work {
  enum class Kind { broadcast, allgather, reduce_scatter, allreduce };
  Kind kind = Kind::broadcast;
  const std::byte* input = nullptr;  ///< input buffer, which a broadcast does not use
  std::byte* output = nullptr;
  std::size_t bytes = 0;
};

/// One rank of the library under measurement. Every rank must call each function in the same order.
/// The functions block, except start(); a failure throws std::runtime_error or ends the program.
class Contender {
 public:
  virtual ~Contender() = default;
  /// The name and version of the library, as the library reports them.
  virtual std::string version() const = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual void barrier() = 0;
  /// Broadcasts the `bytes` bytes at `data` of rank 0 into `data` of every rank.
  virtual void broadcast(std::byte* data, std::size_t bytes) = 0;
  /// Gathers the `bytes` bytes at `input` of every rank, in rank order, into `output` of every
  /// rank, which has room for ranks() * bytes.
  virtual void allgather(const std::byte* input, std::byte* output, std::size_t bytes) = 0;
  virtual void reduce_scatter(const std::byte* input, std::byte* output, std::size_t bytes);
  virtual void allreduce(const std::byte* input, std::byte* output, std::size_t bytes);
  /// Starts a collective and returns at once. A collective of lane 0 and one of lane 1 may run at
  /// the same time.
  virtual void start(const Work& work, int lane);
  /// Waits for the end of all collectives that start() has started.
  virtual void finish();
  /// Sends the `bytes` bytes at `data` to rank `to`, `count` times without a wait in between.
  virtual void send(const std::byte* data, std::size_t bytes, int count, int to);
  /// Receives `count` messages of `bytes` bytes from rank `from`, all posted at the same time;
  /// stores them one behind the other at `data`.
  virtual void receive(std::byte* data, std::size_t bytes, int count, int from);
  /// Returns the values of all ranks, in rank order, on rank 0, and an empty list on other ranks.
  /// This call is never part of a measurement.
  virtual std::vector<std::int64_t> gather(std::int64_t value) = 0;
  /// Returns the `value` of rank 0 on every rank. This call is never part of a measurement.
  virtual std::int64_t share(std::int64_t value) = 0;

 private:
  [[noreturn]] void lacks(const char* what) const;
};

struct Options {
  std::string name = "unnamed";  ///< name of the contender in the printed lines
  /// Names of the operations to measure; operation_names() lists all. `pair` starts an allgather
  /// and a reduce_scatter at the same time. An operation with the prefix `loop_` reports the mean
  /// time over many calls in sequence. An operation with the prefix `overlap_` starts the
  /// collective, does work that takes as long as the collective alone, and then waits. In
  /// `loop_ping_pong` rank 0 and the last rank send each other a message; in `loop_stream` rank 0
  /// sends the last rank many messages at once, and the last rank answers with a short message.
  std::vector<std::string> operations = {"none", "broadcast", "allgather"};
  /// Sizes in bytes of the vector (broadcast, allreduce) or of each rank's block (allgather,
  /// reduce_scatter).
  std::vector<std::size_t> sizes = {65536};
  int iterations = 10;
  int warmup = 2;
  std::int64_t lead_us = 2000;  ///< how long in advance the ranks agree on a common start, in us
  /// Path of the orchestrator's socket; empty: no link counters are read.
  std::string gate;
};

/// The names of all operations that can be measured.
std::vector<std::string> operation_names();

/// Parses the options that all contenders have; all other arguments are stored in `rest`. Throws
/// std::runtime_error, which names the option, if a value is bad or missing.
Options parse_options(int argc, char** argv, std::vector<std::string>& rest);

/// Measures every operation of `options` with every size; rank 0 prints one line of JSON for each
/// of these pairs. Returns, on every rank, the number of wrong bytes over all ranks.
std::int64_t measure_all(Contender& contender, const Options& options);

}  // namespace tutti::bench
