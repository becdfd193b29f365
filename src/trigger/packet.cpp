#include "trigger/packet.hpp"

#include <fmt/format.h>

namespace tutti::trigger {
namespace {

constexpr std::uint64_t bit(bool set, unsigned at) { return std::uint64_t{set} << at; }
constexpr bool has(std::uint64_t word, unsigned at) { return (word >> at & 1) != 0; }

}  // namespace

std::size_t encode(const PacketHeader& header,
                   std::span<std::uint64_t, kMaxPacketHeaderWords> out) {
  const bool rdma = header.kind == PayloadKind::rdma;
  out[0] = header.key.packed() | bit(header.collective, 48) | bit(header.trigger, 49) |
           bit(header.swap_data, 50) | bit(header.swap_address, 51) |
           bit(header.collective_end, 52) | bit(rdma, 53);
  out[1] = std::uint64_t{index(header.destination)} << (kPortBits + kPayloadSizeBits) |
           std::uint64_t{index(header.destination_port)} << kPayloadSizeBits | header.payload_bytes;
  out[2] = static_cast<std::uint64_t>(header.remote_address);
  return rdma ? 3 : 2;
}

std::optional<PacketHeader> decode_packet_header(std::span<const std::uint64_t> words) {
  if (words.empty() || words[0] >> 54 != 0) return std::nullopt;
  const bool rdma = has(words[0], 53);
  if (words.size() != (rdma ? 3u : 2u)) return std::nullopt;
  PacketHeader header;
  header.key = PacketKey::unpack(words[0]);
  header.collective = has(words[0], 48);
  header.trigger = has(words[0], 49);
  header.swap_data = has(words[0], 50);
  header.swap_address = has(words[0], 51);
  header.collective_end = has(words[0], 52);
  header.kind = rdma ? PayloadKind::rdma : PayloadKind::mini;
  header.destination = static_cast<NodeId>(words[1] >> (kPortBits + kPayloadSizeBits));
  header.destination_port = static_cast<Port>(words[1] >> kPayloadSizeBits & (kPorts - 1));
  header.payload_bytes = static_cast<std::uint32_t>(words[1] & kMaxPayloadBytes);
  if (rdma) header.remote_address = static_cast<Address>(words[2]);
  return header;
}

std::string to_string(const PacketKey& key) {
  return fmt::format("job {} node {} port {} step {}", index(key.job), index(key.node),
                     index(key.port), index(key.sequence));
}

}  // namespace tutti::trigger
