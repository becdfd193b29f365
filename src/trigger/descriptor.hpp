// Descriptors [Xu25] 1.2: the steps that a host gives to its trigger units.
//
// One unit runs a sequence from its head (CH) to its tail (CT), one descriptor after the other. A
// descriptor names packets in an order and waits until it has read them in that order. It then
//   1. applies their swaps: its data (SwapLocalData, or SwapRemoteData of a packet), its
//      destination port (SwapLocalVP: the answer goes to the requester), its remote address
//      (SwapRemoteAddr of a packet). Of several swaps of one field, the last packet named counts.
//   2. with ReduceFlag, folds the packets' data and its own, in the order named; its own data are
//      at `local_position` of that order.
//   3. stores the result in memory, if it has a store address.
//   4. sends the result to `destination`. If a packet ended the collective here (CollEndFlag), or
//      the descriptor has CollEndFlag and is its own destination, it completes to the host instead.
//
// [Xu25] describes CPCount both as a step that is compared with the packets' SeqID and as the
// number of packets needed. Here it is the number; the steps are in the list of named packets.
//
//   word 0   job 8 | step 5 | source port 11 | destination port 11 | destination 24 | rdma 1 | 0
//   word 1   C, CH, CT, CP 4 | CPCount 6 | swap local data, local port, remote data, remote
//            address, reduce, end 6 | operation 4 | type 4 | local position 5 |
//            contributions 24 | 0
//   word 2   store address      word 3   remote address      word 4   data bytes
//   rdma: the address of the data; one word per packet named: node 24 | port 11 | step 5;
//   mini: the data, padded to whole words
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reduction/element_type.hpp"
#include "trigger/packet.hpp"
#include "trigger/packet_key.hpp"
#include "tutti/status.hpp"

namespace tutti::trigger {

/// Number of packets that one descriptor may name: the children of a node ([Xu25] 1.1). CPCount
/// could hold 63.
inline constexpr std::uint32_t kMaxChildren = 16;
static_assert(kMaxChildren < (1u << kCountBits));
/// Size of the largest data within a descriptor, in bytes.
inline constexpr std::size_t kMaxMiniBytes = 128;
inline constexpr unsigned kContributionBits = 24;
/// Stands for "none" as local_position: the reduction has no operand of its own.
inline constexpr std::uint8_t kNoLocalOperand = 31;

/// A packet that a descriptor names; it belongs to the same job.
struct NamedPacket {
  NodeId node{};
  Port port{};
  SequenceId step{};

  friend bool operator==(const NamedPacket&, const NamedPacket&) = default;
};

struct Descriptor {
  PayloadKind kind = PayloadKind::mini;
  JobId job{};
  SequenceId step{};  ///< step of the packet that this descriptor sends
  Port source_port{};
  Port destination_port{};
  NodeId destination = kNoNode;

  bool collective = true;  ///< flag C: part of a collective
  bool head = false;       ///< flag CH: first descriptor of a sequence
  bool tail = false;       ///< flag CT: last descriptor of a sequence
  bool trigger = true;     ///< flag CP: the packet sent by this descriptor fires another descriptor
  bool swap_local_data = false;
  bool swap_local_port = false;
  bool swap_remote_data = false;
  bool swap_remote_address = false;
  bool reduce = false;
  bool collective_end = false;

  std::uint8_t named_count = 0;  ///< CPCount: number of packets named
  std::array<NamedPacket, kMaxChildren> named{};

  reduction::Operation operation = reduction::Operation::sum;
  reduction::ElementType type = reduction::ElementType::int8;
  /// Number of named packets that precede the descriptor's own data in the order of the fold.
  std::uint8_t local_position = kNoLocalOperand;
  /// Not 0: the result of the collective, an average, which is to be divided by this number of
  /// ranks.
  std::uint32_t contributions = 0;

  std::uint32_t data_bytes = 0;
  std::array<std::byte, kMaxMiniBytes> data{};  ///< data of a mini descriptor
  Address address = kNoAddress;                 ///< address of the data of an rdma descriptor
  /// Address at which the result is stored; kNoAddress: not stored.
  Address store_address = kNoAddress;
  /// Address at which the packet's payload is stored at its destination; kNoAddress: in the hash
  /// buffer.
  Address remote_address = kNoAddress;

  std::span<const NamedPacket> named_packets() const { return std::span(named).first(named_count); }
  PacketKey key_of(std::uint32_t i) const {
    return {job, named[i].node, named[i].port, named[i].step};
  }

  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

/// A sequence of descriptors, or a part of one.
using DescriptorList = std::vector<Descriptor>;

static_assert(kJobBits + kSequenceBits + 2 * kPortBits + kNodeBits + 1 <= 64);
static_assert(4 + kCountBits + 6 + 4 + 4 + 5 + kContributionBits <= 64);

inline constexpr std::size_t kMaxDescriptorWords = 5 + kMaxChildren + kMaxMiniBytes / 8;

/// Appends the words of a descriptor to `out`.
void encode(const Descriptor& descriptor, std::vector<std::uint64_t>& out);

/// Reads one descriptor from the front of `words` and removes it. Fails with invalid_argument and
/// names the field: missing words, reserved bits, or a count, operation, type or size out of range.
Result<Descriptor> decode_descriptor(std::span<const std::uint64_t>& words);

/// Checks that a unit can run these descriptors as one sequence: head first and tail last only, one
/// job and one port, counts and sizes within bounds, reductions of whole elements.
Status check_sequence(std::span<const Descriptor> sequence);

}  // namespace tutti::trigger
