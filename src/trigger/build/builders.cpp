#include "trigger/build/builders.hpp"

#include <array>

#include "base/error.hpp"
#include "trigger/build/builder_parts.hpp"

namespace tutti::trigger {
namespace {

Status check(const CollectiveCall& call) {
  const auto ranks = static_cast<std::uint32_t>(call.nodes.size());
  if (call.rank >= ranks || call.root >= ranks) {
    return failure(Code::invalid_argument,
                   "{}: rank {} or root {} is not one of the {} ranks: use ranks below {}",
                   to_string(call.kind), call.rank, call.root, ranks, ranks);
  }
  if (index(call.port) + ports_of(call.kind) > kPorts) {
    return failure(Code::invalid_argument,
                   "{}: the call needs the ports {} to {}, but the highest port is {}: use a lower "
                   "first port",
                   to_string(call.kind), index(call.port),
                   index(call.port) + ports_of(call.kind) - 1, kPorts - 1);
  }
  const std::uint64_t size_bytes =
      std::uint64_t{call.elements} * reduction::element_bytes(call.type);
  if (size_bytes > kMaxPayloadBytes) {
    return failure(Code::invalid_argument,
                   "{}: a segment of {} bytes is too long: use at most {} bytes",
                   to_string(call.kind), size_bytes, kMaxPayloadBytes);
  }
  if (call.kind != CollectiveKind::barrier && call.kind != CollectiveKind::broadcast &&
      !reduction::is_supported(call.operation, call.type)) {
    return failure(Code::unsupported, "{}: {} does not support {}: use an integer type",
                   to_string(call.kind), to_string(call.operation), to_string(call.type));
  }
  return Status();
}

/// Builds a dissemination barrier: in round t each rank signals the rank 2^t to its right.
Result<std::vector<DescriptorList>> build_barrier(const CollectiveCall& call) {
  const auto ranks = static_cast<std::uint32_t>(call.nodes.size());
  SequenceBuilder builder(call.job, call.port, call.nodes[call.rank]);
  std::uint32_t step = 0;
  for (std::uint32_t distance = 1; distance < ranks; distance *= 2, ++step) {
    builder.signal(call.nodes[(call.rank + distance) % ranks], step);
    builder.wait(call.nodes[(call.rank + ranks - distance) % ranks], step);
  }
  builder.end();
  return std::vector<DescriptorList>{builder.finish()};
}

}  // namespace

const char* to_string(CollectiveKind kind) {
  constexpr std::array<const char*, 5> kNames = {"barrier", "broadcast", "reduce", "reduce_flat",
                                                 "allreduce"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint32_t ports_of(CollectiveKind kind) { return kind == CollectiveKind::broadcast ? 2 : 1; }

Result<std::vector<DescriptorList>> build_sequences(const CollectiveCall& call) {
  if (Status status = check(call); !status) return status;
  switch (call.kind) {
    case CollectiveKind::barrier:
      return build_barrier(call);
    case CollectiveKind::broadcast:
      return build_broadcast(call);
    case CollectiveKind::reduce_flat:
      return build_reduce_flat(call);
    case CollectiveKind::reduce:
    case CollectiveKind::allreduce:
      return build_halving(call);
  }
  return failure(Code::invalid_argument,
                 "no collective has the number {}: use a value of CollectiveKind",
                 static_cast<unsigned>(call.kind));
}

}  // namespace tutti::trigger
