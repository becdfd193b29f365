// Measures how many events, and how many hops of packets over links, one core simulates per second.
//
// The benchmark `hold` repeatedly takes the earliest of N pending events and pushes a new one. The
// delay of the new event is random, as in a packet network; one percent of the delays are timers of
// a millisecond.
// The other benchmarks simulate whole collectives on the fabric, with packets of 4 KiB and without
// a protocol.
#include <benchmark/benchmark.h>

#include <array>
#include <cmath>
#include <queue>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "studies/traffic/message_plan.hpp"
#include "studies/traffic/traffic_run.hpp"

namespace {

using namespace tutti;
using namespace tutti::sim;

std::vector<std::int64_t> packet_delays() {
  constexpr std::array<std::int64_t, 3> kHops = {585'000, 500'000, 1'085'000};
  std::vector<std::int64_t> delays(1u << 16);
  Random random(1);
  for (std::int64_t& delay : delays) {
    const std::uint64_t kind = random.below(100);
    const double uniform = static_cast<double>(random.below(999'999) + 1) / 1e6;
    delay = kHops[random.below(3)] + static_cast<std::int64_t>(random.below(16'000));
    if (kind >= 70) delay = 1000 + static_cast<std::int64_t>(-2e6 * std::log(uniform));
    if (kind >= 99) delay = 1'000'000'000;
  }
  return delays;
}

/// An event queue that is a heap of the standard library, for comparison.
class HeapQueue {
 public:
  void push(const Event& event) { heap_.push(event); }
  bool pop(Event& event) {
    event = heap_.top();
    heap_.pop();
    return true;
  }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const { return b < a; }
  };
  std::priority_queue<Event, std::vector<Event>, Later> heap_;
};

template <typename Queue>
void hold(benchmark::State& state) {
  const std::vector<std::int64_t> delays = packet_delays();
  const auto pending = static_cast<std::uint32_t>(state.range(0));
  Queue queue;
  Random random(42);
  for (std::uint32_t i = 0; i < pending; ++i) {
    queue.push({picoseconds(static_cast<std::int64_t>(random.below(2'000'000))),
                event_key(EventKind::user, i), 0});
  }
  std::uint64_t turn = 0;
  Event event;
  const auto step = [&] {
    queue.pop(event);
    const std::uint64_t which = (target_of(event) * 2'654'435'761u + turn++) & 0xffff;
    queue.push({event.time + picoseconds(delays[which]), event.key, 0});
  };
  for (std::uint64_t i = 0; i < 4ull * pending; ++i) step();
  for (auto _ : state) step();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_TEMPLATE(hold, EventQueue)->Arg(100)->Arg(1000)->Arg(30'000)->Arg(1'000'000);
BENCHMARK_TEMPLATE(hold, HeapQueue)->Arg(1000)->Arg(30'000)->Arg(1'000'000);

Topology tree1024() {
  FatTreeShape shape{.down = {16, 16, 4}, .up = {1, 16, 16}, .parallel = {1, 1, 1}};
  return std::move(Topology::fat_tree(shape).value());
}
Topology tree102400() {
  FatTreeShape shape{.down = {32, 32, 100}, .up = {1, 32, 32}, .parallel = {1, 1, 1}};
  return std::move(Topology::fat_tree(shape).value());
}

struct How {
  FlowControl flow_control = FlowControl::lossless;
  Routing routing = Routing::ecmp;
  bool leaf_groups = false;
  bool trains = false;
};

void run_plan(benchmark::State& state, const Topology& topology, std::uint32_t ranks,
              const MessagePlan& plan, const How& how) {
  std::uint64_t hops = 0;
  std::uint64_t events = 0;
  Picoseconds virtual_time{};
  for (auto _ : state) {
    EventQueue queue;
    const auto hosts = place(topology, ranks, PlacementKind::packed);
    TrafficRun run(queue, plan, *hosts, {.trains = how.trains});
    FabricSettings settings;
    settings.flow_control = how.flow_control;
    settings.routing = how.routing;
    settings.leaf_groups = how.leaf_groups;
    settings.queue_bytes = std::uint64_t{1} << 40;
    Fabric fabric(queue, topology, settings, run);
    if (!run.begin(fabric, {}) || !run.run()) return state.SkipWithError("packets are missing");
    hops += fabric.counters().hops;
    events += queue.popped();
    virtual_time = run.finish_time();
  }
  using benchmark::Counter;
  state.counters["hops_per_s"] = Counter(static_cast<double>(hops), Counter::kIsRate);
  state.counters["events_per_s"] = Counter(static_cast<double>(events), Counter::kIsRate);
  state.counters["simulated_us"] = to_seconds(virtual_time) * 1e6;
}

constexpr std::uint64_t k64KiB = 64u << 10;

void allgather_multicast_1024(benchmark::State& state, How how) {
  run_plan(state, tree1024(), 1024, plan_allgather_multicast(1024, k64KiB, 1), how);
}
BENCHMARK_CAPTURE(allgather_multicast_1024, per_packet, How{})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(allgather_multicast_1024, leaf_groups, (How{.leaf_groups = true}))
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(allgather_multicast_1024, leaf_groups_and_trains,
                  (How{.leaf_groups = true, .trains = true}))
    ->Unit(benchmark::kMillisecond);

void allgather_ring(benchmark::State& state, How how) {
  const auto ranks = static_cast<std::uint32_t>(state.range(0));
  const Topology topology = ranks <= 216 ? Topology::cluster188({}) : tree1024();
  run_plan(state, topology, ranks, plan_allgather_ring(ranks, k64KiB), how);
}
BENCHMARK_CAPTURE(allgather_ring, lossless, How{})
    ->Arg(188)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(allgather_ring, lossy, (How{.flow_control = FlowControl::lossy}))
    ->Arg(188)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond);

void allgather_linear_188(benchmark::State& state, How how) {
  run_plan(state, Topology::cluster188({}), 188, plan_allgather_linear(188, k64KiB), how);
}
BENCHMARK_CAPTURE(allgather_linear_188, adaptive_lossless, (How{.routing = Routing::adaptive}))
    ->Unit(benchmark::kMillisecond);

void broadcast_multicast_102400(benchmark::State& state, How how) {
  run_plan(state, tree102400(), 102'400, plan_broadcast_multicast(102'400, 1u << 20), how);
}
BENCHMARK_CAPTURE(broadcast_multicast_102400, per_packet, How{.flow_control = FlowControl::lossy})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(broadcast_multicast_102400, leaf_groups, (How{.leaf_groups = true}))
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
