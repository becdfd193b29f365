// A sink that records the events of a fabric, and an event loop that runs the fabric.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "sim/fabric/fabric.hpp"

namespace tutti::sim {

/// The arrival of one packet at a host.
struct Heard {
  Picoseconds time;
  std::uint64_t name = 0;  ///< identity of the packet

  friend auto operator<=>(const Heard&, const Heard&) = default;
};

class Recorder : public Sink {
 public:
  std::map<std::uint32_t, std::vector<Heard>> arrivals;  ///< arrivals, indexed by host
  /// The dropped packets, each as link, packet identity and reason.
  std::vector<std::tuple<std::uint32_t, std::uint64_t, int>> drops;
  std::vector<std::pair<Picoseconds, std::uint64_t>> departures;

  void arrived(const Arrival& arrival, HostId at, const Packet& packet) override {
    for (std::uint32_t i = 0; i < arrival.count; ++i) {
      arrivals[index(at)].push_back({arrival.time_of(i), packet.identity + arrival.first + i});
    }
  }
  void dropped(const Arrival& lost, LinkId link, const Packet& packet, DropReason reason) override {
    for (std::uint32_t i = 0; i < lost.count; ++i) {
      drops.emplace_back(index(link), packet.identity + lost.first + i, static_cast<int>(reason));
    }
  }
  void departed(Picoseconds when, HostId, const Packet& packet) override {
    departures.emplace_back(when, packet.identity);
  }

  std::size_t heard() const {
    std::size_t sum = 0;
    for (const auto& [host, all] : arrivals) sum += all.size();
    return sum;
  }
  /// Sorts the arrivals by time, and the dropped packets by link.
  void sort() {
    for (auto& [host, all] : arrivals) std::sort(all.begin(), all.end());
    std::sort(drops.begin(), drops.end());
  }
};

/// A fabric with its queue and its recorder.
struct Bench {
  EventQueue queue;
  Recorder recorder;
  Fabric fabric;

  explicit Bench(const Topology& topology, const FabricSettings& settings = {})
      : fabric(queue, topology, settings, recorder) {}

  void run() {
    for (Event event; queue.pop(event);) fabric.handle(event);
  }
  void run_until(Picoseconds time) {
    for (Event event; queue.next_time() <= time && queue.pop(event);) fabric.handle(event);
  }
  /// A packet that host `from` injects at an instant.
  struct Injection {
    Picoseconds time;
    HostId from;
    Packet packet;
  };
  /// Injects packets, which must be in order of time, and runs to the end.
  void run(const std::vector<Injection>& injections) {
    for (const Injection& one : injections) {
      run_until(one.time - picoseconds(1));
      fabric.inject(one.time, one.from, one.packet);
    }
    run();
  }
  TrafficCount tx(LinkId link) const { return fabric.tx(link); }
  const FabricCounters& counters() const { return fabric.counters(); }
};

}  // namespace tutti::sim
