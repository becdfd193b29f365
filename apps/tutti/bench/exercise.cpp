#include "bench/exercise.hpp"

#include <new>

#include "base/error.hpp"
#include "bench/peers/measure.hpp"

namespace tutti::app {

const char* to_string(Operation operation) {
  switch (operation) {
    case Operation::broadcast:
      return "broadcast";
    case Operation::allgather:
      return "allgather";
    case Operation::barrier:
      return "barrier";
  }
  return "unknown";
}

Result<Exercise> Exercise::create(Communicator& communicator, const ExerciseOptions& options) {
  Exercise exercise(communicator, options);
  if (options.operation == Operation::barrier) return exercise;
  const bool gather = options.operation == Operation::allgather;
  const std::uint64_t blocks = gather ? communicator.size() : 1;
  try {
    exercise.buffer_.resize(options.send_bytes * blocks);
    if (gather && !options.in_place) exercise.apart_.resize(options.send_bytes);
  } catch (const std::bad_alloc&) {
    return failure(Code::resource_exhausted, "rank {}: no memory for a buffer of {} bytes",
                   index(communicator.rank()), options.send_bytes * blocks);
  }
  return exercise;
}

std::span<std::byte> Exercise::own() {
  if (options_.operation != Operation::allgather) return buffer_;
  if (!options_.in_place) return apart_;
  return std::span(buffer_).subspan(index(communicator_->rank()) * options_.send_bytes,
                                    options_.send_bytes);
}

void Exercise::fill(std::uint64_t repetition) {
  const Rank me = communicator_->rank();
  if (options_.operation == Operation::barrier) return;
  if (options_.operation == Operation::broadcast && me != options_.root) return;
  const std::span<std::byte> data = own();
  bench::fill_pattern(data.data(), data.size(), static_cast<int>(index(me)), repetition);
}

Result<Request> Exercise::start() {
  const CollectiveOptions options{.algorithm = options_.algorithm, .will_wait = true};
  switch (options_.operation) {
    case Operation::broadcast:
      return communicator_->broadcast(buffer_, options_.root, options);
    case Operation::allgather:
      return communicator_->allgather(own(), buffer_, options);
    case Operation::barrier:
      break;
  }
  return communicator_->barrier(options);
}

Status Exercise::run() {
  auto request = start();
  return request ? request->wait() : request.status();
}

std::uint64_t Exercise::count_wrong(std::uint64_t repetition) const {
  const auto wrong_in = [&](std::uint64_t block, std::uint32_t source) {
    return static_cast<std::uint64_t>(
        bench::count_wrong(buffer_.data() + block * options_.send_bytes, options_.send_bytes,
                           static_cast<int>(source), repetition));
  };
  if (options_.operation == Operation::barrier) return 0;
  if (options_.operation == Operation::broadcast) return wrong_in(0, index(options_.root));
  std::uint64_t wrong = 0;
  for (std::uint32_t r = 0; r < communicator_->size(); ++r) wrong += wrong_in(r, r);
  return wrong;
}

}  // namespace tutti::app
