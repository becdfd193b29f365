// Multicast Allgather and Allgatherv ([Khalilov24] 4.1): every rank multicasts its block once and
// collects the blocks of the others. The ranks form chains; a rank that has sent its block
// activates the next rank in its chain. The parameter `ready` adds a barrier before the first
// datagram. With the parameter `handshake`, a rank keeps its buffers until its right neighbour has
// all blocks ([Khalilov24] 3.3).
#include "collectives/algorithms.hpp"
#include "collectives/barriers.hpp"
#include "protocol/sequencer.hpp"

namespace tutti::collectives {

namespace {

void allgather_multicast(Builder& b) {
  const std::uint32_t me = b.me();
  const std::uint32_t above = b.ranks() - me - 1;
  const schedule::Parameters& parameters = b.purpose().parameters;
  const protocol::Sequencer sequencer(b.ranks(), parameters.chains);
  const Rank self = rank_of(me);

  std::vector<schedule::TaskRef> collects;
  b.copy(b.send_block(), b.receive_block(me));
  if (b.purpose().collective == schedule::Collective::allgatherv) {
    for (std::uint32_t r = 0; r < b.ranks(); ++r) {
      if (r != me) collects.push_back(b.collect(b.receive_block(r)));
    }
  } else {
    if (me > 0) collects.push_back(b.collect(b.receive_blocks(0, me)));
    if (above > 0) collects.push_back(b.collect(b.receive_blocks(me + 1, above)));
  }

  std::vector<schedule::TaskRef> go;
  if (parameters.ready) go = write_dissemination(b);
  b.round(sequencer.step_of(self));
  if (!sequencer.first(self)) go.push_back(b.recv_signal(sequencer.predecessor(self)));
  for (schedule::TaskRef task : go) b.after(task);
  const schedule::TaskRef sent = b.multicast(b.send_block(), b.receive_block(me));
  if (sequencer.successor(self) != kNoRank) b.after(sent).signal(sequencer.successor(self));
  b.round(sequencer.steps());
  if (parameters.handshake) write_handshake(b, collects);
}

}  // namespace

AlgorithmEntries allgather_multicast_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::allgather,
       .name = "multicast",
       .summary = "each block sent once, in M chains",
       .heeds = kChains | kReady | kHandshake,
       .write = allgather_multicast},
      {.collective = Collective::allgatherv,
       .name = "multicast",
       .summary = "each block sent once, in M chains",
       .heeds = kChains | kReady | kHandshake,
       .write = allgather_multicast},
  };
  return kEntries;
}

}  // namespace tutti::collectives
