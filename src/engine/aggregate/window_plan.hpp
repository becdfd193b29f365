// How a reduction by an aggregator is cut into segments, computed identically by the ranks and the
// aggregator, and the record by which a rank announces its call.
//
// A vector of `blocks` equal blocks (one, or one for each rank) is cut into segments, numbered in
// the order in which they are sent: first the first segment of every block, then the second ones,
// so that all owners' links carry results all the time. Segment s of rank r occupies window slot
// (r, s modulo slots), so that a fold does not depend on the order of arrival ([Xu25] 1.2, 1.3).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "protocol/codec/message.hpp"
#include "reduction/element_type.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

enum class InNetworkKind : std::uint8_t { allreduce, reduce_scatter, reduce };

/// The order in which the contributions to one element are folded. Each gives the same bits on
/// every run, whatever the order of arrival.
enum class FoldOrder : std::uint8_t {
  rank,  ///< 0, 1, ... P-1
  /// From the rank after the owner, around, the owner last: the order and the bits of a ring. The
  /// owner of a block of a Reduce-Scatter adds its own contribution itself, which then is not sent:
  /// N (P-1) bytes instead of N P.
  ring,
};

/// The window that an aggregator offers to one communicator, with its credits ([Xu25] 1.3). The
/// same at all members.
struct WindowConfig {
  /// Largest segment; a multiple of 64. With its headers it leaves a rank, and the aggregator, in
  /// one system call and one kernel packet; 4 KiB more would need two.
  std::uint32_t segment_bytes = 60 * 1024;
  /// Window slots of one rank: enough for the distance that other ranks run ahead while one rank's
  /// link carries its Allgather block.
  std::uint32_t slots = 128;
  std::uint32_t pulses = 4;  ///< credit batches per window ([Xu25] 1.3)
  /// Bytes of an Allreduce's result that are multicast at once.
  std::uint32_t group_bytes = 256 * 1024;

  friend bool operator==(const WindowConfig&, const WindowConfig&) = default;
};

inline constexpr std::uint32_t kMaxInNetworkRanks = 4096;

/// Ok if an aggregator can work with these terms; otherwise names the field and its range.
Status check(const WindowConfig& terms);

/// One call, on which all ranks must agree.
struct InNetworkCall {
  InNetworkKind kind = InNetworkKind::allreduce;
  reduction::ElementType type = reduction::ElementType::float32;
  reduction::Operation operation = reduction::Operation::sum;
  FoldOrder order = FoldOrder::rank;
  Rank root = rank_of(0);      ///< Reduce only, otherwise 0
  std::uint64_t elements = 0;  ///< of each block: the part that this aggregator reduces

  friend bool operator==(const InNetworkCall&, const InNetworkCall&) = default;
};

/// Ok if the call is valid among this many ranks.
Status check(const InNetworkCall& call, std::uint32_t ranks);

/// The record that a rank writes before its contributions: the call and the rank's own values.
struct CallRecord {
  static constexpr std::size_t kBytes = 64;

  InNetworkCall call;
  std::uint64_t result_key = 0;       ///< key of the memory for its results; 0: it receives none
  std::array<std::byte, 8> factor{};  ///< premultiplied_sum: its factor, one element of the type
};

std::array<std::byte, CallRecord::kBytes> encode(const CallRecord& record);
/// No value if a field is invalid; `ranks` bounds the root.
std::optional<CallRecord> decode_call_record(std::span<const std::byte> bytes, std::uint32_t ranks);

/// The segments of one call.
class InNetworkPlan {
 public:
  InNetworkPlan() = default;
  /// The call and the terms have passed `check`.
  InNetworkPlan(const InNetworkCall& call, std::uint32_t ranks, const WindowConfig& terms);

  std::uint32_t segments() const { return segments_; }
  std::uint32_t segments_per_block() const { return blocks_ == 0 ? 0 : segments_ / blocks_; }
  /// Bytes of each block that this aggregator reduces.
  std::uint64_t part_bytes() const { return part_bytes_; }
  std::uint32_t block(std::uint32_t segment) const { return segment % blocks_; }
  std::uint32_t in_block(std::uint32_t segment) const { return segment / blocks_; }
  std::uint64_t offset_bytes(std::uint32_t segment) const {
    return std::uint64_t{in_block(segment)} * segment_bytes_;
  }
  std::size_t bytes(std::uint32_t segment) const;
  std::size_t elements(std::uint32_t segment) const {
    return bytes(segment) / reduction::element_bytes(call_.type);
  }
  /// The rank that receives the result; kNoRank: every rank.
  Rank owner(std::uint32_t segment) const;
  /// Whether a rank adds its own contribution to a segment itself instead of sending it.
  bool stays(std::uint32_t segment, Rank rank) const {
    return call_.order == FoldOrder::ring && owner(segment) == rank;
  }

  /// Allreduce: results are multicast in groups of this many segments; the last may be shorter.
  std::uint32_t group_segments() const { return group_segments_; }
  std::uint32_t groups() const { return (segments_ + group_segments_ - 1) / group_segments_; }
  std::uint64_t group_offset_bytes(std::uint32_t group) const {
    return offset_bytes(group * group_segments_);
  }
  std::uint64_t group_bytes(std::uint32_t group) const;

 private:
  InNetworkCall call_;
  std::uint32_t blocks_ = 1;
  std::uint64_t part_bytes_ = 0;
  std::uint64_t segment_bytes_ = 1;
  std::uint32_t segments_ = 0;
  std::uint32_t group_segments_ = 1;
};

/// Why an aggregator ended a call, as sent to the ranks: reason << 32
///  rank at fault.
enum class Refusal : std::uint32_t {
  none,
  record,     ///< its call record is invalid
  mismatch,   ///< it called a different operation from the others
  overrun,    ///< it wrote without credit
  left,       ///< it has closed its communicator while others still call
  reduction,  ///< the operation is not defined for the type
  last = reduction,
};

/// "rank 3 wrote without credit".
std::string describe(Refusal refusal, Rank rank);
/// The error that a rank reports for a `refused` message; `who` names the aggregator.
Status refusal_status(const std::string& who, const protocol::Message& message);

}  // namespace tutti::engine
