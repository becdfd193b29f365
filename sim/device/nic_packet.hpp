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
  refusal,          ///< of a peer's one-sided operation: bad key or range
  acknowledgement,  ///< alone; every other kind carries one too
  ping,             ///< asks for a sign of life
};

struct NicPacket {
  NicPacketKind kind = NicPacketKind::acknowledgement;
  bool sequenced = false;
  bool last = false;         ///< of its operation
  bool acknowledge = false;  ///< at once, please
  bool immediate = false;    ///< write: `argument` goes to the peer's completion queue
  std::uint16_t communicator = 0;
  Rank source = kNoRank;
  Rank destination = kNoRank;
  std::uint32_t sequence = 0;
  std::uint32_t acknowledged = 0;  ///< the next sequence number that the source expects
  std::uint64_t selective = 0;     ///< bit i: acknowledged + 1 + i has come
  std::uint32_t operation = 0;
  std::uint32_t length = 0;    ///< of data in this packet; read_request: see `total`
  std::uint64_t total = 0;     ///< read_request: bytes asked for
  std::uint64_t key = 0;       ///< of the region written to or read from
  std::uint64_t offset = 0;    ///< in the region
  std::uint64_t position = 0;  ///< read_response: in the reader's memory
  std::uint64_t argument = 0;
  Payload* payload = nullptr;  ///< one reference; null where bytes are not carried
};

/// Packets in the fabric, by a number that stays theirs until `take`.
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
  std::size_t in_flight() const { return packets_.size() - free_.size(); }

 private:
  std::vector<NicPacket> packets_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tutti::device::sim
