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
  refusal,          ///< refuses a peer's one-sided operation: bad key or range
  acknowledgement,  ///< nothing else; every other kind carries one too
  ping,             ///< asks for an answer, to show that the peer lives
};

struct NicPacket {
  NicPacketKind kind = NicPacketKind::acknowledgement;
  bool sequenced = false;
  bool last = false;         ///< last packet of its operation
  bool acknowledge = false;  ///< asks for an acknowledgement at once
  bool immediate = false;    ///< write: `argument` goes to the peer's completion queue
  std::uint16_t communicator = 0;
  Rank source = kNoRank;
  Rank destination = kNoRank;
  std::uint32_t sequence = 0;
  std::uint32_t acknowledged = 0;  ///< next sequence number that the source expects
  std::uint64_t selective = 0;     ///< bit i: acknowledged + 1 + i has arrived
  std::uint32_t operation = 0;
  std::uint32_t length = 0;    ///< bytes of data in this packet; read_request: see `total`
  std::uint64_t total = 0;     ///< read_request: bytes requested
  std::uint64_t key = 0;       ///< key of the region written or read
  std::uint64_t offset = 0;    ///< offset in the region
  std::uint64_t position = 0;  ///< read_response: position in the reader's memory
  std::uint64_t argument = 0;
  Payload* payload = nullptr;  ///< holds one reference; null if bytes are not carried
};

/// Packets in the fabric, by a number that stays valid until `take`.
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
  const NicPacket& operator[](std::uint32_t at) const { return packets_[at]; }

 private:
  std::vector<NicPacket> packets_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tutti::device::sim
