// A collective that runs repeatedly on the same buffers, each time with other data, and whose
// result is checked.
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
  CollectiveOptions call{};  ///< options of the collective; Exercise itself sets will_wait
  Rank root{0};
  /// Size of the message (Broadcast, Reduce, Allreduce) or of one rank's block (other collectives),
  /// in bytes.
  std::uint64_t send_bytes = 0;
  bool in_place = true;   ///< whether to run in place, if the collective has both forms
  Reduction reduction{};  ///< element type and operation of a reduction
};

/// True if reports show the total of all ranks' blocks as the size of this collective.
constexpr bool counts_all_blocks(Operation operation) {
  return operation == Operation::allgather || operation == Operation::allgatherv ||
         operation == Operation::gather || operation == Operation::scatter ||
         operation == Operation::alltoall || operation == Operation::reduce_scatter;
}
/// Whether the collective has both forms: in place, and with separate send and receive buffers.
constexpr bool has_both_places(Operation operation) {
  return operation == Operation::allgather || operation == Operation::reduce_scatter ||
         operation == Operation::allreduce || operation == Operation::reduce;
}

class Exercise {
 public:
  /// Allocates the buffers. Error (resource_exhausted): memory is short.
  static Result<Exercise> create(Communicator& communicator, const ExerciseOptions& options);

  /// Writes the data of this repetition into the send buffer.
  void fill(std::uint64_t repetition);
  /// The name of the algorithm that the collective runs with.
  Result<std::string> algorithm() { return communicator_->algorithm_of(call()); }
  /// Runs the collective and waits for its end.
  Status run();
  /// The number of bytes in the receive buffer that differ from the expected result of this
  /// repetition.
  std::uint64_t count_wrong(std::uint64_t repetition) const;
  /// The size of this rank's receive buffer, in bytes.
  std::uint64_t received_bytes() const { return buffer_.size(); }

 private:
  Exercise(Communicator& communicator, const ExerciseOptions& options)
      : communicator_(&communicator), options_(options) {}

  std::uint32_t me() const { return index(communicator_->rank()); }
  bool is_root() const { return communicator_->rank() == options_.root; }
  CollectiveCall call();
  /// The number of blocks in the send buffer, each of send_bytes.
  std::uint64_t send_blocks() const;
  std::uint64_t receive_blocks() const;
  std::span<std::byte> contribution();
  std::uint64_t count_wrong_block(std::uint64_t block, std::uint32_t source,
                                  std::uint64_t repetition) const;
  std::uint64_t count_wrong_reduction(std::uint64_t repetition) const;

  Communicator* communicator_;
  ExerciseOptions options_;
  /// Receive buffer; also the send buffer if the collective runs in place.
  std::vector<std::byte> buffer_;
  std::vector<std::byte> apart_;  ///< send buffer if the collective does not run in place
};

}  // namespace tutti::app
