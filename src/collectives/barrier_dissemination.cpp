// Dissemination barrier: ceil(log2 P) rounds for any number P of ranks. In round i each rank
// signals the rank 2^i positions to its right. The signalled rank then knows that 2^(i+1) ranks,
// itself included, have entered the barrier.
#include "collectives/algorithms.hpp"
#include "collectives/barriers.hpp"

namespace tutti::collectives {

std::vector<schedule::TaskRef> write_dissemination(schedule::Builder& b) {
  std::vector<schedule::TaskRef> heard;
  std::uint32_t round = 0;
  for (std::uint64_t distance = 1; distance < b.ranks(); distance *= 2) {
    const auto ahead = static_cast<std::int64_t>(distance);
    b.round(round++);
    // A rank sends its signal only after it has received the signals of all earlier rounds, because
    // signals may arrive out of order.
    for (schedule::TaskRef earlier : heard) b.after(earlier);
    b.signal(b.around(ahead));
    heard.push_back(b.recv_signal(b.around(-ahead)));
  }
  return heard;
}

void write_handshake(schedule::Builder& b, const std::vector<schedule::TaskRef>& own_work) {
  if (b.ranks() == 1) return;
  for (schedule::TaskRef task : own_work) b.after(task);
  b.signal(b.around(-1));
  b.recv_signal(b.around(1));
}

namespace {

void barrier_dissemination(Builder& b) { write_dissemination(b); }

}  // namespace

AlgorithmEntries barrier_dissemination_entries() {
  static constexpr AlgorithmEntry kEntries[] = {
      {.collective = Collective::barrier,
       .name = "dissemination",
       .summary = "ceil(log2 P) rounds, any P",
       .write = barrier_dissemination},
  };
  return kEntries;
}

}  // namespace tutti::collectives
