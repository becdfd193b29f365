// Descriptors [Xu25] 1.2: the steps that a host gives to its trigger units.
//
// One unit runs a sequence from its head (CH) to its tail (CT), one descriptor after the other. A
// descriptor names packets and waits until the unit has read them in the order named. It then
//   1. replaces fields of its own by values from packets; if several packets set one field, the
//      last named wins. Flags of the descriptor ask for new data (SwapLocalData) and for a new
//      destination port (SwapLocalVP). Flags of a packet ask for new data (SwapRemoteData) and for
//      a new remote address (SwapRemoteAddr),
//   2. with ReduceFlag, folds the data of the packets and its own data,
//   3. stores the result in memory, if it has a store address,
//   4. sends the result to `destination`. In two cases it sends nothing, but ends the collective at
//      this node and notifies the host: a packet has CollEndFlag, or the descriptor has this flag
//      and `destination` is its own node.
//
// Here CPCount is the number of named packets, although [Xu25] also describes it as a step to
// compare with SeqID. The encoding in 64-bit words follows; the fields of a word begin at its
// lowest bit, and a number after a field is its width in bits.
//
//   word 0   destination 24 | destination port 11 | source port 11 | step 5 | job 8 | rdma 1 | 0
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

/// A descriptor may name at most this many packets, because a node has at most this many children
/// ([Xu25] 1.1). The field CPCount could hold values up to 63.
inline constexpr std::uint32_t kMaxChildren = 16;
static_assert(kMaxChildren < (1u << kCountBits));
/// Limit in bytes of the data that a mini descriptor contains.
inline constexpr std::size_t kMaxMiniBytes = 128;
inline constexpr unsigned kContributionBits = 24;
/// Value of local_position for a reduction without data of this node.
inline constexpr std::uint8_t kNoLocalOperand = 31;

/// Names a packet by the sender's node, the sender's port and the packet's step. The packet's job
/// is that of the descriptor.
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

  /// Flag C: true if the descriptor is part of a collective; false for a point-to-point message.
  bool collective = true;
  bool head = false;    ///< flag CH: first descriptor of a sequence
  bool tail = false;    ///< flag CT: last descriptor of a sequence
  bool trigger = true;  ///< flag CP: another descriptor waits for the packet that this one sends
  bool swap_local_data = false;
  bool swap_local_port = false;
  bool swap_remote_data = false;
  bool swap_remote_address = false;
  bool reduce = false;
  bool collective_end = false;

  std::uint8_t named_count = 0;  ///< CPCount: number of packets that the descriptor names
  std::array<NamedPacket, kMaxChildren> named{};

  reduction::Operation operation = reduction::Operation::sum;
  reduction::ElementType type = reduction::ElementType::int8;
  /// Number of named packets that are folded before the descriptor's own data.
  std::uint8_t local_position = kNoLocalOperand;
  /// In the last reduction of a collective: the number of ranks, by which an average divides the
  /// sum. In all other descriptors: 0.
  std::uint32_t contributions = 0;

  std::uint32_t data_bytes = 0;
  std::array<std::byte, kMaxMiniBytes> data{};  ///< the data; PayloadKind::mini only
  Address address = kNoAddress;                 ///< address of the data, in an rdma descriptor
  /// Address at which this node stores the result; kNoAddress: the result is not stored.
  Address store_address = kNoAddress;
  /// Address for the payload at the packet's destination; kNoAddress: the payload goes to the hash
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

/// Decodes one descriptor from the front of `words` and removes its words. Fails with
/// invalid_argument, and names the field, if words are missing, if reserved bits are not zero, or
/// if a count, operation, type or size is out of range.
Result<Descriptor> decode_descriptor(std::span<const std::uint64_t>& words);

/// Checks that a unit can run these descriptors as one sequence: only the first is a head and only
/// the last a tail, all have one job and one port, counts and sizes are within bounds, and
/// reductions have whole elements.
Status check_sequence(std::span<const Descriptor> sequence);

}  // namespace tutti::trigger
