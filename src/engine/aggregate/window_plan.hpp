// What a reduction in the network is cut into, computed alike by the ranks and by the aggregator,
// and the record by which a rank tells the aggregator of its call.
//
// A vector of `blocks` equal blocks (one, or one for each rank) is cut into segments. The segments
// are numbered as they travel: first the first segment of every block, then the second ones, so
// that all owners' links carry results all the time. Segment s of rank r lies in the aggregator's
// window at place (r, s modulo slots): an ordered buffer, keyed by rank and number (T2, T3).
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

/// In which order the contributions to one element are folded. Either gives the same bits on every
/// run, whatever arrives when.
enum class FoldOrder : std::uint8_t {
  rank,  ///< 0, 1, ... P-1
  /// Behind the owner, around, and the owner last: what a ring does, with its bits. The owner of a
  /// block of a Reduce-Scatter joins its own contribution, which then need not travel: N (P-1) out
  /// instead of N P (K14).
  ring,
};

/// What an aggregator offers to one communicator (T4). The same at all its members.
struct WindowConfig {
  /// The most that is reduced at once; a multiple of 64. This leaves a rank, and the aggregator, in
  /// one system call and one packet of the kernel's, headers included; four more KiB take two.
  std::uint32_t segment_bytes = 60 * 1024;
  /// Segments of one rank that the window holds: as much as the others run ahead while one rank's
  /// link is busy with its turn in an Allgather.
  std::uint32_t slots = 128;
  std::uint32_t pulses = 4;  ///< in which credits come back, k of row T4
  /// Of an Allreduce's result, multicast at once.
  std::uint32_t group_bytes = 256 * 1024;

  friend bool operator==(const WindowConfig&, const WindowConfig&) = default;
};

inline constexpr std::uint32_t kMaxInNetworkRanks = 4096;

/// Ok where an aggregator can work by these terms; otherwise names the field and its range.
Status check(const WindowConfig& terms);

/// One call, as all ranks must agree on it.
struct InNetworkCall {
  InNetworkKind kind = InNetworkKind::allreduce;
  reduction::ElementType type = reduction::ElementType::float32;
  reduction::Operation operation = reduction::Operation::sum;
  FoldOrder order = FoldOrder::rank;
  Rank root = rank_of(0);      ///< reduce only, otherwise 0
  std::uint64_t elements = 0;  ///< of each block, the part that goes by this aggregator

  friend bool operator==(const InNetworkCall&, const InNetworkCall&) = default;
};

/// Ok where the call means something among so many ranks.
Status check(const InNetworkCall& call, std::uint32_t ranks);

/// What a rank writes in front of its contributions: the call, and what is its own.
struct CallRecord {
  static constexpr std::size_t kBytes = 64;

  InNetworkCall call;
  std::uint64_t result_key = 0;       ///< of the memory where its results go; 0: it gets none
  std::array<std::byte, 8> factor{};  ///< premultiplied_sum: its factor, one element of the type
};

std::array<std::byte, CallRecord::kBytes> encode(const CallRecord& record);
/// Nothing where a field has no meaning; `ranks` bounds the root.
std::optional<CallRecord> decode_call_record(std::span<const std::byte> bytes, std::uint32_t ranks);

/// How a call is cut.
class InNetworkPlan {
 public:
  InNetworkPlan() = default;
  /// The call and the terms have passed `check`.
  InNetworkPlan(const InNetworkCall& call, std::uint32_t ranks, const WindowConfig& terms);

  std::uint32_t segments() const { return segments_; }
  std::uint32_t segments_per_block() const { return blocks_ == 0 ? 0 : segments_ / blocks_; }
  /// Where a block's segments begin and end, in bytes of the block's part.
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
  /// Who gets the result; kNoRank: everybody.
  Rank owner(std::uint32_t segment) const;
  /// Whether a rank's own contribution to a segment stays at home.
  bool stays(std::uint32_t segment, Rank rank) const {
    return call_.order == FoldOrder::ring && owner(segment) == rank;
  }

  /// Allreduce: results are multicast in groups of so many segments; the last may be shorter.
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

/// Why an aggregator ends a call, as it tells the ranks: reason << 32 | rank at fault.
enum class Refusal : std::uint32_t {
  none,
  record,     ///< its call record has no meaning
  mismatch,   ///< it called something else than the others
  overrun,    ///< it wrote without credit (T4)
  left,       ///< it has closed its communicator, the others call on
  reduction,  ///< the operation cannot be done on the type
  last = reduction,
};

/// "rank 3 wrote without credit".
std::string describe(Refusal refusal, Rank rank);
/// What a rank makes of a `refused` message; `who`: the aggregator, as messages name it.
Status refusal_status(const std::string& who, const protocol::Message& message);

}  // namespace tutti::engine
