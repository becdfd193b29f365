#include "studies/offload/trigger_network.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "sim/fabric/event_queue.hpp"
#include "trigger/pulsed_collective.hpp"

namespace tutti::simulation {

using sim::Event;
using sim::EventKind;
using sim::Picoseconds;
using trigger::CollectiveKind;
using trigger::UnitBank;

namespace {

// Event: a host's call tries to begin credit batches. The argument is the job.
constexpr EventKind kTurn = EventKind{16};
constexpr EventKind kUnits = EventKind{17};  // event: a node's trigger units process arrivals
constexpr EventKind kLink = EventKind{18};   // event: a node's link is free
// Event: a packet is ready for the link. The argument is the index of the packet.
constexpr EventKind kSend = EventKind{19};
// Event: a packet has reached its destination. The argument is the index of the packet.
constexpr EventKind kArrive = EventKind{20};
// Event: the network tries again to deliver the packets that a node pushed back for lack of room.
constexpr EventKind kRetry = EventKind{21};
constexpr std::uint64_t kHeaderBytes = 8 * trigger::kMaxPacketHeaderWords;
constexpr std::uint64_t kStartDraw = 1;
constexpr std::uint64_t kValueDraw = 2;
constexpr std::uint32_t kRoot = 0;
// Time without an accepted packet after which a run fails. Without this limit, a run in which every
// packet is pushed back would repeat the deliveries forever.
constexpr Picoseconds kPatience = sim::milliseconds(10);

/// One element of a node's input. It is a small integer, so that sums are exact in any order and
/// every result can be checked.
double contribution(std::uint32_t node, std::uint64_t element) {
  return static_cast<double>(draw(kValueDraw, node, element) % 1024);
}

class TriggerNetwork {
 public:
  explicit TriggerNetwork(const TriggerNetworkSpec& spec)
      : spec_(spec),
        link_(spec.latency.link_bits_per_second),
        memory_(spec.latency.memory_bits_per_second),
        elements_(spec.bytes / sizeof(double)) {}

  Result<TriggerNetworkReport> run();

 private:
  struct Packet {
    trigger::PacketHeader header;
    std::vector<std::byte> payload;
    bool held = false;  ///< whether a node has pushed the packet back at least once
  };
  struct RootSlots {
    std::uint32_t used = 0;
    std::uint32_t waiting = 0;
  };
  struct Node {
    Node(const UnitBank::Settings& settings, trigger::PulsedCredits made)
        : bank(settings), credits(std::move(made)) {}
    UnitBank bank;
    trigger::PulsedCredits credits;
    /// Calls in progress, indexed by job.
    std::vector<std::unique_ptr<trigger::PulsedCollective>> calls{};
    /// Result vectors, indexed by job.
    std::vector<std::vector<double>> outputs{};
    /// Instant at which each call ended, indexed by job; 0 while the call runs.
    std::vector<Picoseconds> finish{};
    std::vector<double> input{};
    /// Instant at which the node's link is free; if links are not shared, one instant for each
    /// job's link.
    std::vector<Picoseconds> link_free{};
    /// Packets that the node pushed back, in order of arrival.
    std::vector<std::uint32_t> held{};
    std::uint64_t stalled = 0;  ///< stall count of the node's trigger units after their last poll
    Picoseconds stalled_until{};
    bool units_due = false;
    bool link_due = false;
    bool retry_due = false;
  };

  Status build();
  Status open_job(std::uint32_t node, std::uint32_t job);
  Status handle(const Event& event);
  Status turn(std::uint32_t node, std::uint32_t job);
  Status units(std::uint32_t node);
  Status complete(std::uint32_t node);
  void pump(std::uint32_t node);
  void send(std::uint32_t packet);
  Status arrive(std::uint32_t packet);
  Status retry(std::uint32_t node);
  Result<bool> deliver(std::uint32_t packet);
  void want_units(std::uint32_t node);
  void note_occupancy();
  Status judge(TriggerNetworkReport& report);
  Status check_results(TriggerNetworkReport& report) const;

  std::uint32_t pipe_of(trigger::JobId job) const { return spec_.shared_links ? 0 : index(job); }
  bool to_memory(const trigger::PacketHeader& header) const {
    return header.kind == trigger::PayloadKind::rdma;
  }
  void push(Picoseconds at, EventKind kind, std::uint32_t target, std::uint64_t argument = 0) {
    queue_.push({at, event_key(kind, target), argument});
  }
  Picoseconds now() const { return queue_.now(); }

  const TriggerNetworkSpec& spec_;
  sim::WireSpeed link_;
  sim::WireSpeed memory_;
  std::uint64_t elements_;
  sim::EventQueue queue_;
  std::vector<trigger::NodeId> names_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Packet> packets_;
  std::vector<std::uint32_t> free_packets_;
  std::uint64_t held_back_ = 0;
  std::uint32_t running_ = 0;  ///< number of calls that have not ended
  Picoseconds moved_{};        ///< instant at which a node last accepted a packet
  RootSlots slots_{};          ///< present use of hash buffer slots at the root's node
  Picoseconds slots_since_{};  ///< instant at which `slots_` last changed
  double used_time_ = 0;       ///< number of used slots, integrated over time in picoseconds
  double waiting_time_ = 0;
  std::uint32_t most_used_ = 0;
};

Status TriggerNetwork::build() {
  if (spec_.nodes < 2 || spec_.jobs < 1 || spec_.jobs > spec_.bank.jobs || elements_ == 0 ||
      spec_.bytes % sizeof(double) != 0) {
    return failure(Code::invalid_argument,
                   "offload: a setting is out of range: use at least 2 nodes (now {}), 1 to {} "
                   "jobs (now {}), and a multiple of 8 bytes above 0 (now {})",
                   spec_.nodes, spec_.bank.jobs, spec_.jobs, spec_.bytes);
  }
  for (std::uint32_t node = 0; node < spec_.nodes; ++node) {
    names_.push_back(static_cast<trigger::NodeId>(node));
  }
  for (std::uint32_t node = 0; node < spec_.nodes; ++node) {
    auto credits = trigger::PulsedCredits::create(spec_.credits);
    if (!credits) return credits.status();
    UnitBank::Settings bank = spec_.bank;
    bank.node = names_[node];
    nodes_.push_back(std::make_unique<Node>(bank, std::move(*credits)));
    Node& made = *nodes_.back();
    made.link_free.resize(spec_.shared_links ? 1 : spec_.jobs);
    made.finish.resize(spec_.jobs);
    made.input.resize(elements_);
    made.outputs.reserve(spec_.jobs);
    for (std::uint64_t e = 0; e < elements_; ++e) made.input[e] = contribution(node, e);
    for (std::uint32_t job = 0; job < spec_.jobs; ++job) {
      if (Status opened = open_job(node, job); !opened) return opened;
    }
  }
  return {};
}

Status TriggerNetwork::open_job(std::uint32_t node, std::uint32_t job) {
  Node& at = *nodes_[node];
  trigger::CollectiveCall call;
  call.kind = spec_.kind;
  call.nodes = names_;
  call.rank = node;
  call.root = kRoot;
  call.job = static_cast<trigger::JobId>(job);
  call.elements = static_cast<std::uint32_t>(elements_);
  call.type = reduction::ElementType::float64;
  const bool broadcast = spec_.kind == CollectiveKind::broadcast;
  at.outputs.emplace_back(elements_);
  if (broadcast && node == kRoot) at.outputs.back() = at.input;
  const auto output =
      at.bank.add_memory(call.job, std::as_writable_bytes(std::span(at.outputs[job])));
  if (!output) return output.status();
  call.output = *output;
  if (!broadcast) {
    const auto input = at.bank.add_memory(call.job, std::as_writable_bytes(std::span(at.input)));
    if (!input) return input.status();
    call.input = *input;
  }
  auto made = trigger::PulsedCollective::create(
      at.bank, at.credits, call, spec_.segment_bytes / static_cast<std::uint32_t>(sizeof(double)));
  if (!made) return made.status();
  at.calls.push_back(std::make_unique<trigger::PulsedCollective>(std::move(*made)));
  ++running_;
  const auto spread = static_cast<std::uint64_t>(spec_.start_spread.count) + 1;
  const Picoseconds called{
      static_cast<std::int64_t>(draw(spec_.seed, kStartDraw, node, job) % spread)};
  // The trigger units fetch the data of a Broadcast themselves, so the time of a bus transfer is
  // not added.
  const Picoseconds fetched = broadcast ? Picoseconds{} : spec_.latency.bus;
  push(called + spec_.latency.processor + spec_.latency.bus + fetched, kTurn, node, job);
  return {};
}

Status TriggerNetwork::handle(const Event& event) {
  const EventKind kind = kind_of(event);
  const std::uint32_t target = target_of(event);
  const auto argument = static_cast<std::uint32_t>(event.argument);
  if (kind == kTurn) return turn(target, argument);
  if (kind == kUnits) return units(target);
  if (kind == kArrive) return arrive(argument);
  if (kind == kRetry) return retry(target);
  if (kind == kLink) {
    nodes_[target]->link_due = false;
    pump(target);
  } else {
    send(argument);
  }
  return {};
}

void TriggerNetwork::want_units(std::uint32_t node) {
  Node& at = *nodes_[node];
  if (std::exchange(at.units_due, true)) return;
  push(std::max(now() + spec_.tick, at.stalled_until), kUnits, node);
}

Status TriggerNetwork::turn(std::uint32_t node, std::uint32_t job) {
  Node& at = *nodes_[node];
  if (at.finish[job].count != 0) return {};
  const std::uint64_t deferred = at.bank.counters().posts_deferred;
  if (at.calls[job]->poll(to_instant(now()))) want_units(node);
  if (Status status = at.calls[job]->status(); !status) return status;
  if (at.bank.counters().posts_deferred != deferred) push(now() + spec_.retry, kTurn, node, job);
  return {};
}

Status TriggerNetwork::units(std::uint32_t node) {
  Node& at = *nodes_[node];
  at.units_due = false;
  at.bank.poll(to_instant(now()));
  if (node == kRoot) note_occupancy();
  std::uint64_t stalled = 0;
  for (std::uint32_t u = 0; u < at.bank.units(); ++u) stalled += at.bank.unit(u).counters().stalled;
  pump(node);
  if (std::exchange(at.stalled, stalled) != stalled) {
    at.stalled_until = now() + spec_.retry;
    want_units(node);
  }
  return complete(node);
}

// The interface counts the responses of a credit batch and fetches the data of the next batch
// without the host.
Status TriggerNetwork::complete(std::uint32_t node) {
  Node& at = *nodes_[node];
  while (!at.bank.completions().empty()) {
    const trigger::Completion completion = at.bank.completions().front();
    at.bank.completions().pop();
    const std::uint32_t job = index(completion.job);
    trigger::PulsedCollective& call = *at.calls[job];
    if (!call.on_completion(completion)) {
      return failure(Code::internal,
                     "offload: job {} at node {} completed a call that it has not begun: report "
                     "this as a defect",
                     job, node);
    }
    if (Status status = call.status(); !status) return status;
    if (call.done() && at.finish[job].count == 0) {
      at.finish[job] = now() + spec_.latency.bus;
      --running_;
    } else if (!call.done()) {
      push(now() + 2 * spec_.latency.bus, kTurn, node, job);
    }
  }
  return {};
}

// Moves packets from the trigger units to the link as long as the link is free.
void TriggerNetwork::pump(std::uint32_t node) {
  Node& at = *nodes_[node];
  while (trigger::PacketOutbox* outbox = at.bank.next_outbox()) {
    const bool transfer = to_memory(outbox->front().header);
    if (spec_.shared_links && !transfer && at.link_free[0] > now()) {
      if (!std::exchange(at.link_due, true)) push(at.link_free[0], kLink, node);
      break;
    }
    if (free_packets_.empty()) {
      free_packets_.push_back(static_cast<std::uint32_t>(packets_.size()));
      packets_.emplace_back();
    }
    const std::uint32_t packet = free_packets_.back();
    free_packets_.pop_back();
    const trigger::OutgoingPacket& front = outbox->front();
    packets_[packet].header = front.header;
    packets_[packet].payload.assign(front.payload.begin(), front.payload.end());
    packets_[packet].held = false;
    outbox->pop();
    if (transfer) {
      // In formula (1), a control message precedes the data. After this message the host builds a
      // descriptor and transfers the descriptor to the interface.
      const OffloadLatency& latency = spec_.latency;
      push(now() + latency.message() + latency.processor + latency.bus, kSend, node, packet);
    } else {
      send(packet);
    }
  }
}

void TriggerNetwork::send(std::uint32_t packet) {
  const trigger::PacketHeader& header = packets_[packet].header;
  Picoseconds& free = nodes_[index(header.key.node)]->link_free[pipe_of(header.key.job)];
  const std::uint64_t bytes = kHeaderBytes + header.payload_bytes;
  const bool memory = to_memory(header);
  free = std::max(free, now()) + (memory ? memory_ : link_).time_of(bytes);
  const Picoseconds after = memory ? spec_.latency.bus : Picoseconds{};
  push(free + spec_.latency.network + after, kArrive, index(header.destination), packet);
}

// Delivers a packet to a node; returns false if the node pushed the packet back.
Result<bool> TriggerNetwork::deliver(std::uint32_t at) {
  Packet& packet = packets_[at];
  const std::uint32_t node = index(packet.header.destination);
  const auto delivered = nodes_[node]->bank.deliver(packet.header, packet.payload);
  if (delivered == UnitBank::Delivered::refused) {
    return failure(Code::internal,
                   "offload: node {} refused packet {}, because its address, port or size is "
                   "wrong: report this as a defect",
                   node, to_string(packet.header.key));
  }
  if (delivered == UnitBank::Delivered::pushed_back) {
    if (!std::exchange(packet.held, true)) ++held_back_;
    return false;
  }
  free_packets_.push_back(at);
  moved_ = now();
  if (node == kRoot) note_occupancy();
  want_units(node);
  return true;
}

Status TriggerNetwork::arrive(std::uint32_t packet) {
  const std::uint32_t node = index(packets_[packet].header.destination);
  const auto taken = deliver(packet);
  if (!taken) return taken.status();
  if (*taken) return {};
  Node& at = *nodes_[node];
  at.held.push_back(packet);
  if (!std::exchange(at.retry_due, true)) push(now() + spec_.retry, kRetry, node);
  return {};
}

Status TriggerNetwork::retry(std::uint32_t node) {
  Node& at = *nodes_[node];
  at.retry_due = false;
  std::size_t kept = 0;
  for (const std::uint32_t packet : at.held) {
    const auto taken = deliver(packet);
    if (!taken) return taken.status();
    if (!*taken) at.held[kept++] = packet;
  }
  at.held.resize(kept);
  if (kept != 0 && !std::exchange(at.retry_due, true)) push(now() + spec_.retry, kRetry, node);
  return {};
}

// Adds to the averages how the root's hash buffers were used since the previous call. A parked read
// counts as a slot in use, but a buffer counts at most as many slots as it has.
void TriggerNetwork::note_occupancy() {
  const UnitBank& bank = nodes_[kRoot]->bank;
  const auto since = static_cast<double>((now() - slots_since_).count);
  used_time_ += since * slots_.used;
  waiting_time_ += since * slots_.waiting;
  slots_since_ = now();
  slots_ = {};
  for (std::uint32_t u = 0; u < bank.units(); ++u) {
    const trigger::HashBuffer& buffer = bank.unit(u).buffer();
    const trigger::HashBuffer::Counters& counters = buffer.counters();
    const auto parked = static_cast<std::uint32_t>(counters.parked - counters.woke);
    slots_.waiting += counters.occupied;
    slots_.used += std::min(buffer.slots(), counters.occupied + parked);
  }
  most_used_ = std::max(most_used_, slots_.used);
}

Status TriggerNetwork::check_results(TriggerNetworkReport& report) const {
  std::vector<double> expected = nodes_[kRoot]->input;
  if (spec_.kind != CollectiveKind::broadcast) {
    for (std::uint32_t node = 1; node < spec_.nodes; ++node) {
      for (std::uint64_t e = 0; e < elements_; ++e) expected[e] += nodes_[node]->input[e];
    }
  }
  const bool root_only =
      spec_.kind == CollectiveKind::reduce || spec_.kind == CollectiveKind::reduce_flat;
  for (std::uint32_t node = 0; node < (root_only ? 1 : spec_.nodes); ++node) {
    for (std::uint32_t job = 0; job < spec_.jobs; ++job) {
      if (nodes_[node]->outputs[job] != expected) {
        return failure(Code::internal, "offload: the result of job {} at node {} is wrong", job,
                       node);
      }
      report.results_checked += elements_;
    }
  }
  return {};
}

// Checks the conditions that must hold after every run, and fills in the report.
Status TriggerNetwork::judge(TriggerNetworkReport& report) {
  for (const auto& node : nodes_) {
    for (std::uint32_t u = 0; u < node->bank.units(); ++u) {
      const trigger::TriggerUnit& unit = node->bank.unit(u);
      const trigger::HashBuffer& buffer = unit.buffer();
      const std::uint32_t most = buffer.counters().occupied_high_water;
      const std::uint32_t room = buffer.slots() + unit.places();
      if (most > room || buffer.counters().occupied != 0) {
        return failure(
            Code::internal,
            "offload: a hash buffer may hold up to {} packets during the run and none after it, "
            "but it held up to {} during the run and {} after it: report this as a defect",
            room, most, buffer.counters().occupied);
      }
      report.most_full_percent =
          std::max(report.most_full_percent, 100.0 * most / buffer.home_slots());
      report.allowed_percent = 100.0 * room / buffer.home_slots();
      report.stalled += unit.counters().stalled;
    }
    const trigger::PulsedCredits::Counters& credits = node->credits.counters();
    report.pulses += credits.pulses;
    report.pulses_in_flight = std::max(report.pulses_in_flight, credits.in_flight_high_water);
    report.pulses_allowed = node->credits.credits();
    report.packets += node->bank.counters().packets;
    report.pushed_back += node->bank.counters().pushed_back;
    report.posts_deferred += node->bank.counters().posts_deferred;
  }
  if (report.pulses_in_flight > report.pulses_allowed) {
    return failure(Code::internal,
                   "offload: {} credit batches were in flight, but at most {} are allowed: report "
                   "this as a defect",
                   report.pulses_in_flight, report.pulses_allowed);
  }
  return check_results(report);
}

Result<TriggerNetworkReport> TriggerNetwork::run() {
  if (Status built = build(); !built) return built;
  Event event;
  while (queue_.pop(event) && now() - moved_ < kPatience) {
    if (Status status = handle(event); !status) return status;
  }
  if (running_ != 0 || !queue_.empty()) {
    return failure(Code::internal,
                   "offload: no node accepts packets any more, but {} of {} calls have not ended "
                   "and {} events are left: report this as a defect",
                   running_, spec_.jobs * spec_.nodes, queue_.size());
  }
  TriggerNetworkReport report;
  for (const auto& node : nodes_) {
    for (const Picoseconds finish : node->finish) report.time = std::max(report.time, finish);
  }
  for (const Picoseconds finish : nodes_[kRoot]->finish) {
    report.root_time = std::max(report.root_time, finish);
  }
  const std::uint32_t slots =
      nodes_[kRoot]->bank.units() * nodes_[kRoot]->bank.unit(0).buffer().home_slots();
  const double whole = static_cast<double>(report.time.count) * slots / 100;
  report.mean_used_percent = used_time_ / whole;
  report.mean_waiting_percent = waiting_time_ / whole;
  report.peak_used_percent = 100.0 * most_used_ / slots;
  report.held_back = held_back_;
  report.digest = queue_.digest();
  if (Status judged = judge(report); !judged) return judged;
  return report;
}

}  // namespace

Result<TriggerNetworkReport> run_trigger_network(const TriggerNetworkSpec& spec) {
  return TriggerNetwork(spec).run();
}

}  // namespace tutti::simulation
