// Simulates a ring Allgather in SimGrid, for comparison with `tutti sim traffic allgather_ring` on
// the same networks. Built only if SimGrid is installed.
//
//   simgrid_ring 188|1024 BYTES      prints ranks, bytes, virtual time and processor time as JSON
#include <fmt/format.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace s4u = simgrid::s4u;

constexpr double kBytesPerSecond = 56e9 / 8;
constexpr double kLatencySeconds = 50e-9;

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Makes the simulated network. Up to 216 ranks, this is the network of [Khalilov24] 6.2: 12 leaf
/// switches with 18 hosts each, 6 spine switches, and 3 links between each leaf and each spine. For
/// more ranks, it is a fat tree with three levels of switches of radix 32.
std::vector<s4u::Host*> make_network(std::uint32_t ranks) {
  std::vector<s4u::Host*> hosts;
  const s4u::ClusterCallbacks callbacks(
      [&](s4u::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
        s4u::Host* host = zone->create_host(fmt::format("host{}", id), 1e9);
        hosts.push_back(host);
        return std::make_pair(host->get_netpoint(),
                              static_cast<simgrid::kernel::routing::NetPoint*>(nullptr));
      });
  const s4u::FatTreeParams tree = ranks <= 216
                                      ? s4u::FatTreeParams(2, {18, 12}, {1, 6}, {1, 3})
                                      : s4u::FatTreeParams(3, {16, 16, 4}, {1, 16, 16}, {1, 1, 1});
  s4u::create_fatTree_zone("network", nullptr, tree, callbacks, kBytesPerSecond, kLatencySeconds,
                           s4u::Link::SharingPolicy::SPLITDUPLEX)
      ->seal();
  return hosts;
}

/// Runs one rank of the ring. In each of `ranks` - 1 steps it sends a block to its right neighbour
/// and receives one from its left neighbour.
void rank_main(std::uint32_t rank, std::uint32_t ranks, std::uint64_t bytes) {
  static char block;
  s4u::Mailbox* right = s4u::Mailbox::by_name(std::to_string((rank + 1) % ranks));
  s4u::Mailbox* own = s4u::Mailbox::by_name(std::to_string(rank));
  for (std::uint32_t step = 0; step + 1 < ranks; ++step) {
    void* received = nullptr;
    const s4u::CommPtr send = right->put_async(&block, bytes);
    const s4u::CommPtr receive = own->get_async(&received);
    send->wait();
    receive->wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);
  const auto ranks = argc > 1 ? static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10)) : 0;
  const std::uint64_t bytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (ranks < 2 || ranks > 1024 || bytes == 0) {
    fmt::print(stderr, "usage: simgrid_ring RANKS BYTES, 2 to 1024 ranks\n");
    return 2;
  }
  const std::vector<s4u::Host*> hosts = make_network(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    s4u::Actor::create(fmt::format("rank{}", rank), hosts[rank],
                       [rank, ranks, bytes] { rank_main(rank, ranks, bytes); });
  }
  const double before = processor_seconds();
  engine.run();
  fmt::print(
      "{{\"ranks\": {}, \"bytes\": {}, \"time_us\": {:.3f}, \"processor_seconds\": {:.3f}}}\n",
      ranks, bytes, s4u::Engine::get_clock() * 1e6, processor_seconds() - before);
  return 0;
}
