#include "engine/aggregate/window_plan.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace tutti::engine {

namespace {

// Short vectors are cut into shorter segments, so that sending, reducing and receiving overlap.
constexpr std::uint64_t kMinSegments = 16;
constexpr std::uint64_t kSegmentGrain = 4096;
constexpr std::uint64_t kMinGroups = 32;
// Every segment starts at a multiple of this number of bytes, the size of a vector register.
constexpr std::uint64_t kSegmentAlignment = 64;
constexpr std::uint64_t kMaxSegments = 0xffff'fff0u;

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

constexpr std::uint32_t block_count(const InNetworkCall& call, std::uint32_t ranks) {
  return call.kind == InNetworkKind::reduce_scatter ? ranks : 1;
}

/// Returns the length of the pieces into which `bytes` bytes are cut, at most about `longest`. With
/// this length the last piece is about as long as the others.
std::uint64_t evenly(std::uint64_t bytes, std::uint64_t longest) {
  const std::uint64_t even = divide_up(bytes, divide_up(bytes, longest));
  return divide_up(even, kSegmentAlignment) * kSegmentAlignment;
}

}  // namespace

Status check(const WindowConfig& terms) {
  const auto outside = [](const char* field, std::uint64_t value, std::uint64_t low,
                          std::uint64_t high) {
    return failure(Code::invalid_argument, "the aggregator's {} is {}: use {} to {}", field, value,
                   low, high);
  };
  if (terms.segment_bytes < kSegmentGrain || terms.segment_bytes > (1u << 20)) {
    return outside("segment_bytes", terms.segment_bytes, kSegmentGrain, 1u << 20);
  }
  if (terms.segment_bytes % 64 != 0) {
    return failure(Code::invalid_argument,
                   "the aggregator's segment_bytes is {}: use a multiple of 64 bytes",
                   terms.segment_bytes);
  }
  // In ring order a rank sends no segment of its own block. With one slot, the owner of the first
  // segment could send nothing, and the aggregator would never learn of the owner's call.
  if (terms.slots < 2 || terms.slots > 1024) return outside("slots", terms.slots, 2, 1024);
  if (terms.pulses == 0 || terms.pulses > terms.slots) {
    return outside("pulses", terms.pulses, 1, terms.slots);
  }
  if (terms.group_bytes < terms.segment_bytes ||
      terms.group_bytes > std::uint64_t{terms.slots} * terms.segment_bytes) {
    return outside("group_bytes", terms.group_bytes, terms.segment_bytes,
                   std::uint64_t{terms.slots} * terms.segment_bytes);
  }
  return {};
}

Status check(const InNetworkCall& call, std::uint32_t ranks) {
  if (!reduction::is_supported(call.operation, call.type)) {
    return failure(Code::unsupported,
                   "the reduction {} is not defined for elements of type {}: use an integer type",
                   to_string(call.operation), to_string(call.type));
  }
  if (index(call.root) >= ranks) {
    return failure(Code::invalid_argument, "root {} is not a rank: use 0 to {}", index(call.root),
                   ranks - 1);
  }
  const std::uint64_t blocks = block_count(call, ranks);
  // Segment numbers must fit into 32 bits even if all segments have the smallest size.
  const std::uint64_t most =
      kMaxSegments * kSegmentGrain / reduction::element_bytes(call.type) / blocks;
  if (call.elements > most) {
    return failure(Code::invalid_argument,
                   "{} elements are too many for a reduction by aggregators: use at most {}",
                   call.elements, most);
  }
  return {};
}

InNetworkPlan::InNetworkPlan(const InNetworkCall& call, std::uint32_t ranks,
                             const WindowConfig& terms)
    : call_(call), blocks_(block_count(call, ranks)) {
  part_bytes_ = call.elements * reduction::element_bytes(call.type);
  const std::uint64_t share = divide_up(part_bytes_ * blocks_, kMinSegments);
  const std::uint64_t longest = std::clamp<std::uint64_t>(
      divide_up(share, kSegmentGrain) * kSegmentGrain, kSegmentGrain, terms.segment_bytes);
  segment_bytes_ = evenly(std::max<std::uint64_t>(part_bytes_, 1), longest);
  segments_ = static_cast<std::uint32_t>(divide_up(part_bytes_, segment_bytes_) * blocks_);
  const std::uint64_t most = std::max<std::uint64_t>(terms.group_bytes / segment_bytes_, 1);
  group_segments_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      divide_up(segments_, kMinGroups), 1, std::min<std::uint64_t>(most, terms.slots)));
}

std::size_t InNetworkPlan::bytes(std::uint32_t segment) const {
  return std::min(segment_bytes_, part_bytes_ - offset_bytes(segment));
}

Rank InNetworkPlan::owner(std::uint32_t segment) const {
  switch (call_.kind) {
    case InNetworkKind::reduce_scatter:
      return rank_of(block(segment));
    case InNetworkKind::reduce:
      return call_.root;
    case InNetworkKind::allreduce:
      break;
  }
  return kNoRank;
}

std::uint64_t InNetworkPlan::group_bytes(std::uint32_t group) const {
  const std::uint64_t begin = group_offset_bytes(group);
  return std::min(std::uint64_t{group_segments_} * segment_bytes_, part_bytes_ - begin);
}

std::array<std::byte, CallRecord::kBytes> encode(const CallRecord& record) {
  std::array<std::byte, CallRecord::kBytes> out{};
  out[0] = static_cast<std::byte>(record.call.kind);
  out[1] = static_cast<std::byte>(record.call.type);
  out[2] = static_cast<std::byte>(record.call.operation);
  out[3] = static_cast<std::byte>(record.call.order);
  const std::uint32_t root = index(record.call.root);
  std::memcpy(out.data() + 4, &root, 4);
  std::memcpy(out.data() + 8, &record.call.elements, 8);
  std::memcpy(out.data() + 16, &record.result_key, 8);
  std::memcpy(out.data() + 24, record.factor.data(), record.factor.size());
  return out;
}

std::optional<CallRecord> decode_call_record(std::span<const std::byte> bytes,
                                             std::uint32_t ranks) {
  if (bytes.size() != CallRecord::kBytes) return std::nullopt;
  const auto field = [&](std::size_t at) { return std::to_integer<std::uint8_t>(bytes[at]); };
  if (field(0) > static_cast<std::uint8_t>(InNetworkKind::reduce) ||
      field(1) >= reduction::kElementTypes || field(2) >= reduction::kOperations ||
      field(3) > static_cast<std::uint8_t>(FoldOrder::ring)) {
    return std::nullopt;
  }
  // Reserved bytes of a record must be zero.
  const auto rest = bytes.subspan(32);
  if (std::any_of(rest.begin(), rest.end(), [](std::byte one) { return one != std::byte{0}; })) {
    return std::nullopt;
  }
  CallRecord record;
  record.call.kind = static_cast<InNetworkKind>(field(0));
  record.call.type = static_cast<reduction::ElementType>(field(1));
  record.call.operation = static_cast<reduction::Operation>(field(2));
  record.call.order = static_cast<FoldOrder>(field(3));
  std::uint32_t root = 0;
  std::memcpy(&root, bytes.data() + 4, 4);
  record.call.root = rank_of(root);
  std::memcpy(&record.call.elements, bytes.data() + 8, 8);
  std::memcpy(&record.result_key, bytes.data() + 16, 8);
  std::memcpy(record.factor.data(), bytes.data() + 24, record.factor.size());
  // A record of a call without elements is invalid, because no rank sends a record for an empty
  // call. Ring order is valid only for a Reduce-Scatter of several ranks.
  const bool ring = record.call.order == FoldOrder::ring;
  if (record.call.elements == 0) return std::nullopt;
  if (ring && (record.call.kind != InNetworkKind::reduce_scatter || ranks < 2)) return std::nullopt;
  if (root != 0 && record.call.kind != InNetworkKind::reduce) return std::nullopt;
  if (!check(record.call, ranks).ok()) return std::nullopt;
  return record;
}

std::string describe(Refusal refusal, Rank rank) {
  const char* what = "caused a refusal for an unknown reason: use one version of Tutti";
  switch (refusal) {
    case Refusal::none:
      break;
    case Refusal::record:
      what = "sent an invalid call: use one version of Tutti";
      break;
    case Refusal::mismatch:
      what =
          "called a different reduction from the other ranks: call with the same operation, type, "
          "count and root, in the same order, on all ranks";
      break;
    case Refusal::overrun:
      what = "wrote without credit: use one version of Tutti";
      break;
    case Refusal::left:
      what =
          "has closed its communicator, but other ranks still call reductions: call the same "
          "collectives on all ranks before closing";
      break;
    case Refusal::reduction:
      what = "requested a reduction that is not defined for its type: use an integer type";
      break;
  }
  return fmt::format("rank {} {}", index(rank), what);
}

Status refusal_status(const RankNames& names, Rank from, const protocol::Message& message) {
  const std::uint64_t reason = message.argument >> 32;
  const auto refusal = reason <= static_cast<std::uint64_t>(Refusal::last)
                           ? static_cast<Refusal>(reason)
                           : Refusal::none;
  const bool fault = refusal == Refusal::overrun || refusal == Refusal::record;
  const Rank rank = rank_of(message.argument & 0xffff'ffffu);
  return failure_of(names.in_job({rank}), fault ? Code::internal : Code::invalid_argument,
                    "{} refused the call: {}", names.of(from), describe(refusal, rank));
}

}  // namespace tutti::engine
