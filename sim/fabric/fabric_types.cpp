#include "sim/fabric/fabric_types.hpp"

#include <bit>

namespace tutti::sim {

void Sink::arrived_on_leaf(const Arrival& arrival, HostId first, std::uint64_t hosts,
                           const Packet& packet) {
  for (std::uint64_t rest = hosts; rest != 0; rest &= rest - 1) {
    const auto host = index(first) + static_cast<std::uint32_t>(std::countr_zero(rest));
    arrived(arrival, HostId{host}, packet);
  }
}
void Sink::dropped(const Arrival&, LinkId, const Packet&, DropReason) {}
void Sink::departed(Picoseconds, HostId, const Packet&) {}

}  // namespace tutti::sim
