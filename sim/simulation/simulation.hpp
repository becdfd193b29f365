// Runs many ranks in one virtual time: the engine's communicators on simulated NICs, driven by
// events.
//
// Each host has one worker that polls the communicators of its ranks, as the progress thread does.
// The configuration alone determines the order of events: no clock, thread or address affects it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/aggregate/reduce_operation.hpp"
#include "engine/core/communicator_context.hpp"
#include "engine/core/departure.hpp"
#include "sim/device/network.hpp"
#include "sim/fabric/event_queue.hpp"
#include "sim/fabric/port_trace.hpp"
#include "sim/fault/fault_device.hpp"
#include "sim/simulation/config.hpp"
#include "sim/simulation/expectation.hpp"
#include "sim/simulation/ranks/collective_run.hpp"
#include "sim/simulation/ranks/hierarchy_rank.hpp"
#include "sim/simulation/ranks/receive_workers.hpp"

namespace tutti::simulation {

/// The end of one collective at one rank.
struct CollectiveEnd {
  bool early = false;  ///< whether a close ended although a peer might still need this rank
  bool submitted = false;
  bool done = false;
  Code code = Code::ok;
  Instant submitted_at{};
  Instant ended_at{};
};

/// A rank's report that it receives no multicast from a source even after it has rejoined its
/// multicast groups.
struct UnheardSource {
  std::uint32_t communicator = 0;
  Rank rank = kNoRank;    ///< rank that reports
  Rank source = kNoRank;  ///< rank that the reporting rank does not hear
};

/// The result of a simulation.
struct WorldReport {
  Status verdict;   ///< error of the first check that failed, or ok
  Instant ended{};  ///< instant at which the last collective ended
  std::uint64_t events = 0;
  std::uint64_t polls = 0;
  std::uint64_t idle_polls = 0;  ///< number of polls that found nothing to do after a wake-up
  /// Hash of all events and of the end of every collective; equal runs have equal digests.
  std::uint64_t digest = 0;
  std::uint64_t completed = 0;  ///< number of collectives without an error, summed over the ranks
  std::uint64_t failed = 0;
  std::vector<UnheardSource> unheard;
  std::uint64_t strangers_refused = 0;  ///< forged or repeated datagrams that ranks refused
};

class Simulation final : public device::sim::HostWaker {
 public:
  explicit Simulation(WorldConfig config);
  ~Simulation() override;

  /// Opens all endpoints. Call it once, before `run`.
  Status open();
  /// Runs until every living rank has ended every collective and no packet is in flight, or until a
  /// check fails.
  WorldReport run();

  const WorldConfig& config() const { return config_; }
  device::sim::SimNetwork& network() { return *network_; }
  const engine::CommunicatorContext& context(std::uint32_t communicator, Rank rank) const {
    return *member(communicator, rank).context;
  }
  const device::sim::SimEndpoint& endpoint(std::uint32_t communicator, Rank rank) const {
    return *member(communicator, rank).endpoint;
  }
  const CollectiveEnd& end_of(std::uint32_t communicator, Rank rank, std::uint32_t at) const {
    return member(communicator, rank).ends[at];
  }
  /// The faults that the fault decorators injected.
  device::fault::Injected injected() const;
  bool lives(std::uint32_t communicator, Rank rank) const;
  /// The packets lost in the fabric, named by link and identity, in the order in which they were
  /// lost.
  const std::vector<FabricLoss>& fabric_losses() const { return losses_; }

  void wake(sim::HostId host, Instant visible, bool chunk) override;

 private:
  class DropRecorder;
  /// One rank of one communicator.
  struct Member {
    std::uint32_t communicator = 0;
    Rank rank = kNoRank;
    std::uint32_t host = 0;
    std::uint32_t submitted = 0;
    std::uint32_t over = 0;
    device::sim::SimEndpoint* endpoint = nullptr;
    std::unique_ptr<engine::CommunicatorContext> context;
    std::vector<CollectiveEnd> ends;
    /// Buffers of each collective; empty if the simulation carries no bytes.
    std::deque<CollectiveRun> runs;
    /// Aggregator window of this rank; null if this rank is not an aggregator.
    std::shared_ptr<engine::InNetworkWindow> window;
    /// Hierarchical calls of this rank; null without a hierarchy.
    std::unique_ptr<HierarchyRank> by_hosts;
    /// Endpoints of this rank in the side communicators.
    std::vector<device::sim::SimEndpoint*> side_endpoints;
    /// This rank's departure from the communicator; null until the rank begins to close.
    std::unique_ptr<engine::Departure> departure;
    /// Time in ns that this rank had spent in ready barriers up to the end of its previous
    /// collective.
    std::uint64_t traced_ready_ns = 0;
    std::uint64_t traced_data_ns = 0;
    Status first_error;

    bool gone() const { return departure != nullptr && departure->over(); }
  };
  struct Host {
    std::vector<std::uint32_t> members;
    Instant busy_until{};
    Instant wake_at = kNever;
    Instant paused_until{};
    std::uint64_t polls = 0;
    bool dead = false;
  };
  struct Shared {
    std::shared_ptr<device::fault::FaultDevice> faults;
    std::shared_ptr<device::Device> device;
    /// Expected results, indexed by collective; empty if the simulation carries no bytes.
    std::vector<Bytes> expected;
    /// Receive buffers that all ranks share if the simulation carries no bytes, indexed by
    /// collective.
    std::vector<std::unique_ptr<std::byte[]>> absent;
    std::uint32_t first_member = 0;
  };

  const Member& member(std::uint32_t communicator, Rank rank) const {
    return members_[shared_[communicator].first_member + index(rank)];
  }
  Instant now() const { return sim::to_instant(queue_.now()); }
  Status open_communicator(std::uint32_t number);
  Status open_member(std::uint32_t number, Rank rank);
  void schedule_script();
  void handle(const sim::Event& event);
  void on_script(sim::EventKind kind, std::uint32_t target);
  void heal();
  void work(std::uint32_t host);
  /// The work that one rank has done so far. It determines how long the worker of the host is busy.
  struct Work {
    std::uint64_t chunks = 0;
    std::uint64_t messages = 0;
    std::uint64_t sends = 0;
    std::uint64_t turns = 0;  ///< number of begins and ends of collectives

    Work& operator+=(const Work& other);
    Work operator-(const Work& other) const;
  };
  Work work_of(const Member& member) const;
  Nanoseconds cost_of(Host& host, const Work& work);
  void schedule_wake(std::uint32_t host, Instant at);
  void submit(std::uint32_t member);
  void submit_one(Member& member, std::uint32_t number);
  Status open_window(Member& member);
  bool depart(std::uint32_t member);
  void open_hierarchy(std::uint32_t number, std::uint32_t first_side);
  void on_end(std::uint32_t member, std::uint32_t collective, const Status& status);
  void kill(sim::HostId host);
  void begin_trace();
  void trace_end(Member& member, const CollectiveEnd& end, CollectiveKind kind);
  void fail(const Status& status);
  Status check_end();
  Status check_ports() const;
  bool names_a_closed_rank(const Member& member) const;
  Status check_member(const Expectation& expected, const Member& member) const;
  std::string describe_stuck() const;

  WorldConfig config_;
  sim::EventQueue queue_;
  ReceiveWorkers receive_workers_;
  std::unique_ptr<device::sim::SimNetwork> network_;
  std::unique_ptr<sim::BackgroundTraffic> background_;
  std::unique_ptr<sim::PortTrace> port_trace_;
  std::uint32_t rank_tracks_ = 0;
  std::uint32_t worker_tracks_ = 0;
  std::unique_ptr<DropRecorder> drops_;
  std::vector<FabricLoss> losses_;
  std::vector<Shared> shared_;
  std::vector<Member> members_;
  std::vector<Host> hosts_;
  /// Number of collectives that have not ended yet, summed over all living ranks.
  std::uint64_t remaining_ = 0;
  WorldReport report_;
};

}  // namespace tutti::simulation
