// One collective, repeated on the same buffers with data that change, and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "session.hpp"

namespace tutti::app {

enum class Operation { broadcast, allgather, barrier };

/// "broadcast".
const char* to_string(Operation operation);

struct ExerciseOptions {
  Operation operation = Operation::allgather;
  Algorithm algorithm = Algorithm::automatic;
  Rank root{0};
  std::uint64_t send_bytes = 0;  ///< broadcast: the message; allgather: each rank's block
  bool in_place = true;
};

class Exercise {
 public:
  /// Allocates the buffers; fails where there is no memory for them.
  static Result<Exercise> create(Communicator& communicator, const ExerciseOptions& options);

  /// Writes what this rank sends in a repetition.
  void fill(std::uint64_t repetition);
  /// Runs the collective to its end.
  Status run();
  /// Received bytes that are not what the repetition sent.
  std::uint64_t count_wrong(std::uint64_t repetition) const;
  /// What every rank holds in the end.
  std::uint64_t received_bytes() const { return buffer_.size(); }

 private:
  Exercise(Communicator& communicator, const ExerciseOptions& options)
      : communicator_(&communicator), options_(options) {}
  std::span<std::byte> own();
  Result<Request> start();

  Communicator* communicator_;
  ExerciseOptions options_;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> apart_;  ///< the send buffer where not in place
};

}  // namespace tutti::app
