// The keys by which waiting packets are found ([Xu25] 1.2, 1.3), and the widths of their fields.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace tutti::trigger {

inline constexpr unsigned kJobBits = 8;
inline constexpr unsigned kNodeBits = 24;
inline constexpr unsigned kPortBits = 11;
inline constexpr unsigned kSequenceBits = 5;
inline constexpr unsigned kCountBits = 6;

inline constexpr std::uint32_t kJobIds = 1u << kJobBits;
inline constexpr std::uint32_t kNodeIds = 1u << kNodeBits;
inline constexpr std::uint32_t kPorts = 1u << kPortBits;
inline constexpr std::uint32_t kSequenceIds = 1u << kSequenceBits;

/// Identifies a job. Each packet, port and memory region belongs to one job; an id may be reused
/// once its job has ended at every node.
enum class JobId : std::uint8_t {};
/// A node of the network; it runs one rank of a communicator.
enum class NodeId : std::uint32_t {};
/// A virtual port: one stream of descriptors and packets between a host and its trigger units.
enum class Port : std::uint16_t {};
/// The step of a collective to which a packet belongs, as an index from 0.
enum class SequenceId : std::uint8_t {};

constexpr std::uint32_t index(JobId job) { return static_cast<std::uint32_t>(job); }
constexpr std::uint32_t index(NodeId node) { return static_cast<std::uint32_t>(node); }
constexpr std::uint32_t index(Port port) { return static_cast<std::uint32_t>(port); }
constexpr std::uint32_t index(SequenceId id) { return static_cast<std::uint32_t>(id); }

/// Value for "no destination": the descriptor sends no packet.
inline constexpr NodeId kNoNode = static_cast<NodeId>(kNodeIds - 1);

/// The key of a packet. `node` and `port` belong to the sender.
struct PacketKey {
  JobId job{};
  NodeId node{};
  Port port{};
  SequenceId sequence{};

  friend constexpr auto operator<=>(const PacketKey&, const PacketKey&) = default;

  constexpr std::uint64_t packed() const {
    return std::uint64_t{index(job)} << (kNodeBits + kPortBits + kSequenceBits) |
           std::uint64_t{index(node)} << (kPortBits + kSequenceBits) |
           std::uint64_t{index(port)} << kSequenceBits | index(sequence);
  }
  static constexpr PacketKey unpack(std::uint64_t packed) {
    return {static_cast<JobId>(packed >> (kNodeBits + kPortBits + kSequenceBits) & (kJobIds - 1)),
            static_cast<NodeId>(packed >> (kPortBits + kSequenceBits) & (kNodeIds - 1)),
            static_cast<Port>(packed >> kSequenceBits & (kPorts - 1)),
            static_cast<SequenceId>(packed & (kSequenceIds - 1))};
  }
};

inline constexpr unsigned kKeyBits = kJobBits + kNodeBits + kPortBits + kSequenceBits;
static_assert(kKeyBits == 48, "JobID 8, NodeID 24, VP 11, SeqID 5");

}  // namespace tutti::trigger
