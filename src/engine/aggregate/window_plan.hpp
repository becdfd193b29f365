// How a reduction by an aggregator is cut into segments. The ranks and the aggregator compute the
// same segments; a rank announces its call by a call record.
//
// The contributions of an Allreduce or Reduce have one block, those of a Reduce-Scatter one block
// for each rank. The segments are numbered in the order in which they are sent: the first segments
// of all blocks, then the second segments, and so on. This order keeps the links of all ranks that
// receive results busy. Segment s of rank r occupies window slot (r, s modulo slots), so that a
// fold does not depend on the order of arrival ([Xu25] 1.2, 1.3).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/peers/rank_names.hpp"
#include "protocol/codec/message.hpp"
#include "reduction/element_type.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

enum class InNetworkKind : std::uint8_t { allreduce, reduce_scatter, reduce };

/// The order in which the contributions to one element are folded. A fold order does not depend on
/// the order of arrival, so it gives the same bits on every run; two fold orders may give different
/// bits.
enum class FoldOrder : std::uint8_t {
  rank,  ///< rank order, from rank 0 to the last rank
  /// Ring order, valid only for a Reduce-Scatter: from the rank after the block's owner cyclically
  /// to the owner, which gives the same bits as a ring algorithm. The owner of a block is the rank
  /// that receives its result. The owner adds its own contribution itself instead of sending it.
  ring,
};

/// The sizes that determine the aggregator window and the credits of one communicator ([Xu25] 1.3).
/// All members must use the same values.
struct WindowConfig {
  /// Size of the largest segment in bytes, a multiple of 64. A segment of the default size leaves,
  /// with its headers, in one system call and one kernel packet; a segment 512 bytes longer would
  /// need two of each.
  std::uint32_t segment_bytes = 60 * 1024 - 256;
  /// Number of window slots of one rank. While the link of one rank is busy with an Allgather, the
  /// other ranks can get at most this many segments ahead of that rank.
  std::uint32_t slots = 128;
  std::uint32_t pulses = 4;  ///< number of credit batches in a window ([Xu25] 1.3)
  /// One Broadcast multicasts at most this many bytes of an Allreduce's result.
  std::uint32_t group_bytes = 256 * 1024;

  friend bool operator==(const WindowConfig&, const WindowConfig&) = default;
};

inline constexpr std::uint32_t kMaxInNetworkRanks = 4096;

/// Checks the sizes of an aggregator window. An error names the invalid field and its range.
Status check(const WindowConfig& terms);

/// One call of a reduction. All ranks must pass the same values.
struct InNetworkCall {
  InNetworkKind kind = InNetworkKind::allreduce;
  reduction::ElementType type = reduction::ElementType::float32;
  reduction::Operation operation = reduction::Operation::sum;
  FoldOrder order = FoldOrder::rank;
  Rank root = rank_of(0);      ///< root of a Reduce, otherwise 0
  std::uint64_t elements = 0;  ///< number of elements of each block that this aggregator reduces

  friend bool operator==(const InNetworkCall&, const InNetworkCall&) = default;
};

/// Checks that the call is valid for this many ranks.
Status check(const InNetworkCall& call, std::uint32_t ranks);

/// The call record, by which a rank announces its call. The rank writes the record to the
/// aggregator before its contributions.
struct CallRecord {
  static constexpr std::size_t kBytes = 64;

  InNetworkCall call;
  /// Memory key under which the aggregator writes the rank's results; 0: the rank receives none.
  std::uint64_t result_key = 0;
  std::array<std::byte, 8> factor{};  ///< the rank's factor for premultiplied_sum, as one element
};

std::array<std::byte, CallRecord::kBytes> encode(const CallRecord& record);
/// Decodes a call record; nothing if a field is invalid, such as a root that is not below `ranks`.
std::optional<CallRecord> decode_call_record(std::span<const std::byte> bytes, std::uint32_t ranks);

/// The segments into which one call is cut.
class InNetworkPlan {
 public:
  InNetworkPlan() = default;
  /// `call` and `terms` must be valid according to `check`.
  InNetworkPlan(const InNetworkCall& call, std::uint32_t ranks, const WindowConfig& terms);

  std::uint32_t segments() const { return segments_; }
  std::uint32_t segments_per_block() const { return blocks_ == 0 ? 0 : segments_ / blocks_; }
  /// Size in bytes of the part of each block that this aggregator reduces.
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
  /// The rank that receives the result of a segment; kNoRank: every rank.
  Rank owner(std::uint32_t segment) const;
  /// True if `rank` adds its own contribution to the segment itself instead of sending it.
  bool stays(std::uint32_t segment, Rank rank) const {
    return call_.order == FoldOrder::ring && owner(segment) == rank;
  }

  /// Number of segments in a group. A group consists of consecutive segments of an Allreduce, whose
  /// results one Broadcast multicasts. The last group may have fewer segments.
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

/// The reason why an aggregator ended a call. In the argument of the `refused` message to the
/// ranks, the upper 32 bits are the reason and the lower 32 bits are the rank at fault.
enum class Refusal : std::uint32_t {
  none,
  record,     ///< the rank's call record is invalid
  mismatch,   ///< the rank called a different operation from the others
  overrun,    ///< the rank wrote without credit
  left,       ///< the rank has closed its communicator, but other ranks still call reductions
  reduction,  ///< the operation of the rank's call is not defined for its element type
  last = reduction,
};

/// The reason in words, such as "rank 3 wrote without credit: use one version of Tutti".
std::string describe(Refusal refusal, Rank rank);
/// The error that a rank reports when `message` from the aggregator `from` is a refusal.
Status refusal_status(const RankNames& names, Rank from, const protocol::Message& message);

}  // namespace tutti::engine
