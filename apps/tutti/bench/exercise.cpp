#include "bench/exercise.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/error.hpp"
#include "bench/peers/measure.hpp"
#include "bench/small_numbers.hpp"
#include "reduction/reducer.hpp"

namespace tutti::app {
namespace {

/// The index of the data pattern for a block that `source` sends only to `target`. Each ordered
/// pair of ranks has a pattern of its own.
std::uint32_t pair_source(std::uint32_t source, std::uint32_t target, std::uint32_t ranks) {
  return source * ranks + target;
}

}  // namespace

std::uint64_t Exercise::send_blocks() const {
  switch (options_.operation) {
    case Operation::barrier:
      return 0;
    case Operation::broadcast:
    case Operation::scatter:
      return !is_root() ? 0 : options_.operation == Operation::scatter ? communicator_->size() : 1;
    case Operation::alltoall:
    case Operation::reduce_scatter:
      return communicator_->size();
    default:
      return 1;
  }
}

std::uint64_t Exercise::receive_blocks() const {
  switch (options_.operation) {
    case Operation::barrier:
      return 0;
    case Operation::allgather:
    case Operation::allgatherv:
    case Operation::alltoall:
      return communicator_->size();
    case Operation::gather:
      return is_root() ? communicator_->size() : 0;
    case Operation::reduce:
      return is_root() ? 1 : 0;
    default:
      return 1;
  }
}

Result<Exercise> Exercise::create(Communicator& communicator, const ExerciseOptions& options) {
  Exercise exercise(communicator, options);
  ExerciseOptions& chosen = exercise.options_;
  const bool shares = has_both_places(options.operation) &&
                      (options.operation != Operation::reduce || exercise.is_root());
  chosen.in_place = options.operation == Operation::broadcast || (options.in_place && shares);
  const std::uint64_t send = exercise.send_blocks() * options.send_bytes;
  const std::uint64_t receive = exercise.receive_blocks() * options.send_bytes;
  try {
    exercise.buffer_.resize(chosen.in_place ? std::max(send, receive) : receive);
    if (!chosen.in_place) exercise.apart_.resize(send);
  } catch (const std::bad_alloc&) {
    return failure(Code::resource_exhausted,
                   "rank {}: not enough memory for buffers of {} bytes: use smaller sizes, or "
                   "free some memory",
                   index(communicator.rank()), send + receive);
  }
  return exercise;
}

/// The memory that holds this rank's contribution to the collective.
std::span<std::byte> Exercise::contribution() {
  if (!options_.in_place) return apart_;
  if (options_.operation != Operation::allgather) return buffer_;
  return std::span(buffer_).subspan(me() * options_.send_bytes, options_.send_bytes);
}

void Exercise::fill(std::uint64_t repetition) {
  const std::uint32_t ranks = communicator_->size();
  const std::span<std::byte> data = contribution();
  if (data.empty() || (options_.operation == Operation::broadcast && !is_root())) return;
  if (reduces(options_.operation)) {
    fill_small_numbers(data, options_.reduction.type, me(), repetition);
    return;
  }
  const bool personal =
      options_.operation == Operation::alltoall || options_.operation == Operation::scatter;
  for (std::uint64_t block = 0; block < send_blocks(); ++block) {
    const std::uint32_t source =
        personal ? pair_source(me(), static_cast<std::uint32_t>(block), ranks) : me();
    bench::fill_pattern(data.data() + block * options_.send_bytes, options_.send_bytes,
                        static_cast<int>(source), repetition);
  }
}

CollectiveCall Exercise::call() {
  CollectiveCall call{.collective = options_.operation,
                      .send = contribution(),
                      .receive = buffer_,
                      .root = options_.root,
                      .reduction = options_.reduction,
                      .options = options_.call};
  call.options.will_wait = true;
  if (options_.operation == Operation::broadcast) call.send = {};
  if (options_.operation == Operation::reduce_scatter && options_.in_place)
    call.receive = std::span(buffer_).subspan(me() * options_.send_bytes, options_.send_bytes);
  return call;
}

Status Exercise::run() {
  auto request = communicator_->start(call());
  return request ? request->wait() : request.status();
}

std::uint64_t Exercise::count_wrong_block(std::uint64_t block, std::uint32_t source,
                                          std::uint64_t repetition) const {
  return static_cast<std::uint64_t>(bench::count_wrong(buffer_.data() + block * options_.send_bytes,
                                                       options_.send_bytes,
                                                       static_cast<int>(source), repetition));
}

std::uint64_t Exercise::count_wrong_reduction(std::uint64_t repetition) const {
  if (receive_blocks() == 0) return 0;
  const bool scatters = options_.operation == Operation::reduce_scatter;
  const std::uint64_t first = scatters ? me() * options_.send_bytes : 0;
  const std::byte* const result =
      buffer_.data() + (scatters && options_.in_place ? me() * options_.send_bytes : 0);
  return count_wrong_small_numbers({result, options_.send_bytes}, first, options_.reduction,
                                   communicator_->size(), repetition);
}

std::uint64_t Exercise::count_wrong(std::uint64_t repetition) const {
  const std::uint32_t ranks = communicator_->size();
  if (reduces(options_.operation)) return count_wrong_reduction(repetition);
  std::uint64_t wrong = 0;
  for (std::uint32_t block = 0; block < receive_blocks(); ++block) {
    std::uint32_t source = block;
    if (options_.operation == Operation::broadcast) source = index(options_.root);
    if (options_.operation == Operation::scatter)
      source = pair_source(index(options_.root), me(), ranks);
    if (options_.operation == Operation::alltoall) source = pair_source(block, me(), ranks);
    wrong += count_wrong_block(block, source, repetition);
  }
  return wrong;
}

}  // namespace tutti::app
