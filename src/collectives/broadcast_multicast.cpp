// Multicast Broadcast ([Khalilov24] 3.1, 3.2): the root multicasts the buffer once and all other
// ranks collect it. The parameter `ready` adds a barrier before the first datagram, and the
// parameter `handshake` adds the final handshake.
#include "collectives/algorithms.hpp"
#include "collectives/barriers.hpp"

namespace tutti::collectives {

namespace {

void broadcast_multicast(Builder& b) {
  const schedule::Parameters& parameters = b.purpose().parameters;
  std::vector<schedule::TaskRef> work;
  if (!b.is_root()) work.push_back(b.collect(b.receive_block()));
  std::vector<schedule::TaskRef> go;
  if (parameters.ready) go = write_dissemination(b);
  if (b.is_root()) {
    for (schedule::TaskRef task : go) b.after(task);
    work.push_back(b.multicast(b.receive_block(), b.receive_block()));
  }
  if (parameters.handshake) write_handshake(b, work);
}

}  // namespace

AlgorithmEntries broadcast_multicast_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::broadcast,
       .name = "multicast",
       .summary = "sent once by the root",
       .heeds = kReady | kHandshake,
       .write = broadcast_multicast},
  };
  return kEntries;
}

}  // namespace tutti::collectives
