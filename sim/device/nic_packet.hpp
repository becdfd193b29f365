// A packet of a simulated reliable connection while it is in the fabric.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/device/payload_store.hpp"
#include "tutti/units.hpp"

namespace tutti::device::sim {

enum class NicPacketKind : std::uint8_t {
  send,
  write,
  read_request,
  read_response,
  /// Atomic operation; the payload is the AtomicOperands, `argument` is the AtomicKind.
  atomic_request,
  atomic_answer,  ///< answer to an atomic_request; `argument` is the old value
  refusal,        ///< refuses work of the peer because of a wrong key, range or alignment
  /// Carries only an acknowledgement. Packets of every other kind except `datagram` also carry an
  /// acknowledgement.
  acknowledgement,
  ping,  ///< requests an ACK from a silent peer
  /// Takes the place of a packet of work that its sender has given up or that was refused;
  /// `argument` is the number of packets after it whose requests are given up, too.
  empty,
  datagram,  ///< frame of a connection that software runs; the payload is the whole datagram
};

struct NicPacket {
  NicPacketKind kind = NicPacketKind::acknowledgement;
  bool sequenced = false;
  bool last = false;         ///< whether this is the last packet of its operation
  bool acknowledge = false;  ///< whether the receiver must acknowledge at once
  bool immediate = false;    ///< whether a WRITE causes a completion with `argument` at the peer
  bool stranger = false;     ///< whether a stranger sent the packet, instead of a rank
  std::uint16_t communicator = 0;
  std::uint32_t sender_host = 0;  ///< the sender's address
  Rank source = kNoRank;
  Rank destination = kNoRank;
  std::uint32_t sequence = 0;
  std::uint32_t acknowledged = 0;  ///< cumulative ACK: next sequence number that the source expects
  /// Selective ACK: bit i is set if packet number `acknowledged` + 1 + i has arrived.
  std::uint64_t selective = 0;
  /// Number of WRITEs from the packet's destination that the packet's source has refused so far.
  std::uint32_t refused_writes = 0;
  std::uint32_t operation = 0;
  std::uint32_t length = 0;    ///< number of data bytes in this packet
  std::uint64_t total = 0;     ///< number of bytes that a read_request asks for
  std::uint64_t key = 0;       ///< memory key of the region that is written or read
  std::uint64_t offset = 0;    ///< offset in the region, in bytes
  std::uint64_t position = 0;  ///< position of a read_response in the reader's memory, in bytes
  std::uint64_t argument = 0;
  Payload* payload = nullptr;  ///< payload, with one reference; null if packets carry no data
};

/// The packets that are in the fabric. Each has a number, which is valid until `take` removes the
/// packet.
class NicPacketPool {
 public:
  std::uint32_t add(const NicPacket& packet) {
    if (free_.empty()) {
      packets_.push_back(packet);
      return static_cast<std::uint32_t>(packets_.size() - 1);
    }
    const std::uint32_t at = free_.back();
    free_.pop_back();
    packets_[at] = packet;
    return at;
  }
  NicPacket take(std::uint32_t at) {
    free_.push_back(at);
    return packets_[at];
  }
  NicPacket& operator[](std::uint32_t at) { return packets_[at]; }

 private:
  std::vector<NicPacket> packets_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tutti::device::sim
