#include "world/collective_run.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/random.hpp"
#include "engine/barrier_operation.hpp"
#include "engine/multicast_operation.hpp"
#include "engine/ring_operation.hpp"

namespace tutti::world {

namespace {

bool is_gather(CollectiveKind kind) {
  return kind == CollectiveKind::allgather || kind == CollectiveKind::ring_allgather;
}

/// The first position in [from, bytes.size() - until) that is not `value`; the end where all are.
std::size_t first_other(std::span<const std::byte> bytes, std::byte value) {
  const auto at = std::find_if(bytes.begin(), bytes.end(), [&](std::byte b) { return b != value; });
  return static_cast<std::size_t>(at - bytes.begin());
}

}  // namespace

const char* to_string(CollectiveKind kind) {
  static constexpr const char* kNames[] = {"allgather", "broadcast", "ring-allgather",
                                           "chain-broadcast", "barrier"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint64_t result_bytes(const CollectiveSpec& spec, std::uint32_t ranks) {
  if (spec.kind == CollectiveKind::barrier) return 0;
  return is_gather(spec.kind) ? spec.bytes * ranks : spec.bytes;
}

Bytes expected_result(const CollectiveSpec& spec, std::uint32_t ranks, std::uint64_t seed) {
  Bytes bytes(result_bytes(spec, ranks));
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = draw(seed, at);
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
  return bytes;
}

std::unique_ptr<engine::Operation> make_operation(const CollectiveSpec& spec,
                                                  std::span<const std::byte> own,
                                                  std::span<std::byte> result) {
  switch (spec.kind) {
    case CollectiveKind::allgather:
      return engine::MulticastOperation::allgather(own, result);
    case CollectiveKind::broadcast:
      return engine::MulticastOperation::broadcast(result, spec.root);
    case CollectiveKind::ring_allgather:
      return engine::RingOperation::allgather(own, result);
    case CollectiveKind::chain_broadcast:
      return engine::RingOperation::broadcast(result, spec.root);
    case CollectiveKind::barrier:
      break;
  }
  return std::make_unique<engine::BarrierOperation>();
}

CollectiveRun::CollectiveRun(const CollectiveSpec& spec, std::uint32_t ranks, Rank rank,
                             const Bytes& expected)
    : spec_(&spec), expected_(&expected), rank_(rank), result_bytes_(result_bytes(spec, ranks)) {
  if (spec.kind == CollectiveKind::barrier) return;
  result_.assign(result_bytes_ + 2 * kGuardBytes, kGuard);
  std::span<std::byte> all = result();
  std::fill(all.begin(), all.end(), kBefore);
  if (!is_gather(spec.kind)) {
    if (spec.root == rank) std::copy(expected.begin(), expected.end(), all.begin());
    return;
  }
  const auto own = std::span(expected).subspan(index(rank) * spec.bytes, spec.bytes);
  if (spec.in_place) {
    std::copy(own.begin(), own.end(),
              all.begin() + static_cast<std::ptrdiff_t>(index(rank) * spec.bytes));
    return;
  }
  own_.assign(spec.bytes + 2 * kGuardBytes, kGuard);
  std::copy(own.begin(), own.end(), own_.begin() + kGuardBytes);
}

std::unique_ptr<engine::Operation> CollectiveRun::operation() {
  std::span<std::byte> all = result_.empty() ? std::span<std::byte>{} : result();
  std::span<std::byte> own;
  if (is_gather(spec_->kind)) {
    own = spec_->in_place ? all.subspan(index(rank_) * spec_->bytes, spec_->bytes)
                          : std::span(own_).subspan(kGuardBytes, spec_->bytes);
  }
  return make_operation(*spec_, own, all);
}

Status CollectiveRun::finish(bool succeeded) {
  finished_ = true;
  if (result_.empty()) return {};
  std::span<std::byte> all = result();
  Status status;
  if (succeeded && !std::equal(all.begin(), all.end(), expected_->begin())) {
    const auto [wrong, right] = std::mismatch(all.begin(), all.end(), expected_->begin());
    const char* kind = *wrong == kAfterwards ? ", read from a buffer after its completion"
                       : *wrong == kBefore   ? ", never written"
                                             : "";
    status = failure(Code::internal, "byte {} of {} is 0x{:02x} where 0x{:02x} belongs{}",
                     wrong - all.begin(), all.size(), static_cast<unsigned>(*wrong),
                     static_cast<unsigned>(*right), kind);
  }
  // The application uses its buffers again: whoever still reads or writes them gives itself away.
  std::fill(all.begin(), all.end(), kAfterwards);
  if (!own_.empty()) {
    std::fill(own_.begin() + kGuardBytes, own_.end() - kGuardBytes, kAfterwards);
  }
  return status;
}

Status CollectiveRun::check_untouched() const {
  for (const Bytes* buffer : {&result_, &own_}) {
    if (buffer->empty()) continue;
    const char* which = buffer == &result_ ? "receive" : "send";
    const std::span<const std::byte> all(*buffer);
    const std::size_t before = first_other(all.first(kGuardBytes), kGuard);
    const std::size_t behind = first_other(all.last(kGuardBytes), kGuard);
    if (before < kGuardBytes) {
      return failure(Code::internal, "a write {} bytes before the {} buffer", kGuardBytes - before,
                     which);
    }
    if (behind < kGuardBytes) {
      return failure(Code::internal, "a write {} bytes behind the {} buffer", behind, which);
    }
    if (!finished_) continue;
    const auto inner = all.subspan(kGuardBytes, all.size() - 2 * kGuardBytes);
    const std::size_t later = first_other(inner, kAfterwards);
    if (later < inner.size()) {
      return failure(Code::internal, "a write to byte {} of the {} buffer after completion", later,
                     which);
    }
  }
  return {};
}

}  // namespace tutti::world
