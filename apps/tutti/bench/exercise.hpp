// One collective that is repeated on the same buffers with changing data, and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "session.hpp"

namespace tutti::app {

using Operation = Collective;

struct ExerciseOptions {
  Operation operation = Operation::allgather;
  CollectiveOptions call{};  ///< options of the call, which always waits
  Rank root{0};
  /// Size of the message (Broadcast, Reduce, Allreduce) or of a block, in bytes.
  std::uint64_t send_bytes = 0;
  bool in_place = true;   ///< whether the collective runs in place, if it can
  Reduction reduction{};  ///< reduction of the elements: sum, min, max or average
};

/// Whether the quoted size of a collective counts the blocks of all ranks together.
constexpr bool counts_all_blocks(Operation operation) {
  return operation == Operation::allgather || operation == Operation::allgatherv ||
         operation == Operation::gather || operation == Operation::scatter ||
         operation == Operation::alltoall || operation == Operation::reduce_scatter;
}
/// Whether a collective can run both in place and with two buffers.
constexpr bool has_both_places(Operation operation) {
  return operation == Operation::allgather || operation == Operation::reduce_scatter ||
         operation == Operation::allreduce || operation == Operation::reduce;
}

class Exercise {
 public:
  /// Allocates the buffers; fails if memory is short.
  static Result<Exercise> create(Communicator& communicator, const ExerciseOptions& options);

  /// Writes the data that this rank sends in a repetition.
  void fill(std::uint64_t repetition);
  /// The name of the algorithm that the collective runs with.
  Result<std::string> algorithm() { return communicator_->algorithm_of(call()); }
  /// Runs the collective to its end.
  Status run();
  /// The number of received bytes that differ from the data sent in this repetition.
  std::uint64_t count_wrong(std::uint64_t repetition) const;
  /// The size of the result on every rank, in bytes.
  std::uint64_t received_bytes() const { return buffer_.size(); }

 private:
  Exercise(Communicator& communicator, const ExerciseOptions& options)
      : communicator_(&communicator), options_(options) {}

  std::uint32_t me() const { return index(communicator_->rank()); }
  bool is_root() const { return communicator_->rank() == options_.root; }
  CollectiveCall call();
  /// The number of blocks of send_bytes in the send buffer: one per rank, or one for all ranks.
  std::uint64_t send_blocks() const;
  std::uint64_t receive_blocks() const;
  std::span<std::byte> contribution();
  std::uint64_t count_wrong_block(std::uint64_t block, std::uint32_t source,
                                  std::uint64_t repetition) const;
  std::uint64_t count_wrong_reduction(std::uint64_t repetition) const;

  Communicator* communicator_;
  ExerciseOptions options_;
  std::vector<std::byte> buffer_;  ///< receive buffer, which is also the send buffer in place
  std::vector<std::byte> apart_;   ///< send buffer if the collective does not run in place
};

}  // namespace tutti::app
