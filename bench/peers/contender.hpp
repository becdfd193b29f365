// Shared by every measured program, for any library: the common start, the data check, the counter
// window and the printed line. README.md in this folder is the definition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::bench {

/// One collective with its buffers. `bytes`: the vector (broadcast, allreduce), each rank's block
/// (allgather: of the input; reduce_scatter: of the output). Reductions sum floats.
struct Work {
  enum class Kind { broadcast, allgather, reduce_scatter, allreduce };
  Kind kind = Kind::broadcast;
  const std::byte* input = nullptr;  ///< broadcast: not used
  std::byte* output = nullptr;
  std::size_t bytes = 0;
};

/// The library under measurement, as one rank sees it. All calls are collective and blocking; a
/// failure is thrown as std::runtime_error or ends the program in the library's own way.
class Contender {
 public:
  virtual ~Contender() = default;
  /// Name and version of the library, as it states them itself.
  virtual std::string version() const = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual void barrier() = 0;
  /// Rank 0's `bytes` at `data` reach every rank.
  virtual void broadcast(std::byte* data, std::size_t bytes) = 0;
  /// Every rank's `bytes` at `input` reach every rank, in rank order at `output` (ranks() * bytes).
  virtual void allgather(const std::byte* input, std::byte* output, std::size_t bytes) = 0;
  virtual void reduce_scatter(const std::byte* input, std::byte* output, std::size_t bytes);
  virtual void allreduce(const std::byte* input, std::byte* output, std::size_t bytes);
  /// Starts a collective and returns; those of different lanes (0 and 1) may run side by side.
  virtual void start(const Work& work, int lane);
  /// Waits for all that was started.
  virtual void finish();
  /// Every rank's value, in rank order, at rank 0; empty elsewhere. Not measured.
  virtual std::vector<std::int64_t> gather(std::int64_t value) = 0;
  /// Rank 0's value at every rank. Not measured.
  virtual std::int64_t share(std::int64_t value) = 0;

 private:
  [[noreturn]] void lacks(const char* what) const;
};

struct Options {
  std::string name = "unnamed";  ///< the label in each printed line
  /// Also reduce_scatter, allreduce, barrier; `pair`: an allgather and a reduce_scatter started
  /// together; `loop_` and a barrier, broadcast or allgather: many calls, one after the other, and
  /// the mean of them; `overlap_` and a collective: started, then a fixed amount of work that takes
  /// as long as the collective alone, then waited for.
  std::vector<std::string> operations = {"none", "broadcast", "allgather"};
  std::vector<std::size_t> sizes = {
      65536};  ///< bytes: the vector (broadcast), each rank's block (allgather)
  int iterations = 10;
  int warmup = 2;
  std::int64_t lead_us = 2000;  ///< from agreement on the start instant to that instant
  std::string gate;             ///< path of the orchestrator's socket; empty: no counter window
};

/// The operations that can be measured.
std::vector<std::string> operation_names();

/// Takes the options it knows out of the command line; the rest is left in `rest` for the program.
/// Throws std::runtime_error naming the option on a bad or missing value.
Options parse_options(int argc, char** argv, std::vector<std::string>& rest);

/// Measures every (operation, size) of `options` and prints one JSON line for each at rank 0.
/// Returns the number of wrong bytes seen by all ranks, known at every rank.
std::int64_t measure_all(Contender& contender, const Options& options);

}  // namespace tutti::bench
