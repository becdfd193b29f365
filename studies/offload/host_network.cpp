#include "studies/offload/host_network.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "sim/fabric/event_queue.hpp"

namespace tutti::simulation {

using sim::Event;
using sim::EventKind;
using sim::Picoseconds;
using trigger::CollectiveKind;
using trigger::Descriptor;

namespace {

constexpr EventKind kStep = EventKind{16};  // event: a sequence continues; target: the sequence
// Event: a message is ready for its sender's link. The argument is the index of the message.
constexpr EventKind kSend = EventKind{17};
// Event: a message is visible to its receiver. The argument is the index of the message.
constexpr EventKind kVisible = EventKind{18};
constexpr std::uint64_t kHeaderBytes = 8 * trigger::kMaxPacketHeaderWords;
// Number of the random stream for start times. trigger_network.cpp uses the same number, so that
// both studies draw the same times.
constexpr std::uint64_t kStartDraw = 1;
constexpr std::uint32_t kRoot = 0;

class HostNetwork {
 public:
  explicit HostNetwork(const HostNetworkSpec& spec)
      : spec_(spec),
        memory_(spec.latency.memory_bits_per_second),
        compute_(spec.latency.compute_bits_per_second),
        link_free_(std::size_t{spec.nodes} * (spec.shared_links ? 1 : spec.jobs)) {}

  Result<HostNetworkReport> run();

 private:
  struct Sequence {
    std::uint32_t node = 0;
    std::uint32_t job = 0;
    std::size_t at = 0;
    /// Whether the time of the current descriptor's addition (T_Compute) has been counted.
    bool added = false;
    bool ended = false;
    Picoseconds ready{};
    trigger::DescriptorList descriptors;
  };
  struct Message {
    trigger::PacketKey key;
    std::uint32_t to = 0;
    std::uint32_t sequence = 0;  ///< sequence that waits for the message at the receiver
    std::uint64_t bytes = 0;
    /// Whether the message is a transfer to memory, whose time follows formula (1) of [Xu25] 2.2.
    bool transfer = false;
  };

  Status build();
  Status open(std::uint32_t node, std::uint32_t job);
  bool has_all(const Sequence& sequence) const;
  void step(std::uint32_t at);
  Picoseconds add(const Sequence& sequence, std::uint64_t bytes);
  void post(const Sequence& sequence, const Descriptor& descriptor);
  void send(std::uint32_t at);
  void push(Picoseconds at, EventKind kind, std::uint32_t target, std::uint64_t argument = 0) {
    queue_.push({at, event_key(kind, target), argument});
  }
  Picoseconds now() const { return queue_.now(); }
  /// A number that identifies a message among the messages of all receivers: the packet key in the
  /// low 48 bits, and the index of the receiving node in the bits above.
  static std::uint64_t name(std::uint32_t to, const trigger::PacketKey& key) {
    return std::uint64_t{to} << trigger::kKeyBits | key.packed();
  }

  const HostNetworkSpec& spec_;
  sim::WireSpeed memory_;
  sim::WireSpeed compute_;
  sim::EventQueue queue_;
  std::vector<trigger::NodeId> names_;
  std::vector<Sequence> sequences_;  ///< sequences, indexed by node, job and port
  std::uint32_t ports_ = 0;          ///< number of ports (descriptor lists) of a job at a node
  std::vector<Picoseconds> link_free_;
  std::vector<Message> messages_;
  std::unordered_set<std::uint64_t> seen_;
  std::uint32_t running_ = 0;
  HostNetworkReport report_;
};

Status HostNetwork::build() {
  if (spec_.nodes < 2 || spec_.nodes > 1u << 15 || spec_.jobs < 1 ||
      spec_.jobs > trigger::kJobIds || spec_.pieces < 1 ||
      spec_.bytes < sizeof(double) * spec_.pieces) {
    return failure(
        Code::invalid_argument,
        "host-based collective: a setting is out of range: use 2 to 32768 nodes (now {}), 1 to 256 "
        "jobs (now {}), at least 1 piece (now {}), and at least 8 bytes per piece (now {} in all)",
        spec_.nodes, spec_.jobs, spec_.pieces, spec_.bytes);
  }
  for (std::uint32_t node = 0; node < spec_.nodes; ++node) {
    names_.push_back(static_cast<trigger::NodeId>(node));
  }
  ports_ = spec_.pieces * ports_of(spec_.kind);
  for (std::uint32_t node = 0; node < spec_.nodes; ++node) {
    for (std::uint32_t job = 0; job < spec_.jobs; ++job) {
      if (Status opened = open(node, job); !opened) return opened;
    }
  }
  return {};
}

Status HostNetwork::open(std::uint32_t node, std::uint32_t job) {
  const std::uint64_t elements = spec_.bytes / sizeof(double);
  const std::uint64_t piece = (elements + spec_.pieces - 1) / spec_.pieces;
  const auto spread = static_cast<std::uint64_t>(spec_.start_spread.count) + 1;
  const Picoseconds called{
      static_cast<std::int64_t>(draw(spec_.seed, kStartDraw, node, job) % spread)};
  for (std::uint32_t p = 0; p < spec_.pieces; ++p) {
    const std::uint64_t first = std::min(elements, p * piece);
    trigger::CollectiveCall call;
    call.kind = spec_.kind;
    call.nodes = names_;
    call.rank = node;
    call.root = kRoot;
    call.job = static_cast<trigger::JobId>(job);
    call.port = static_cast<trigger::Port>(p * ports_of(spec_.kind));
    call.elements = static_cast<std::uint32_t>(std::min(elements, first + piece) - first);
    call.type = reduction::ElementType::float64;
    call.input = trigger::Address{0};
    call.output = trigger::Address{0};
    auto built = build_sequences(call);
    if (!built) return built.status();
    for (trigger::DescriptorList& list : *built) {
      ++running_;
      push(called, kStep, static_cast<std::uint32_t>(sequences_.size()));
      sequences_.push_back({node, job, 0, false, false, called, std::move(list)});
    }
  }
  return {};
}

bool HostNetwork::has_all(const Sequence& sequence) const {
  const Descriptor& d = sequence.descriptors[sequence.at];
  for (std::uint32_t i = 0; i < d.named_count; ++i) {
    if (!seen_.contains(name(sequence.node, d.key_of(i)))) return false;
  }
  return true;
}

void HostNetwork::step(std::uint32_t at) {
  Sequence& sequence = sequences_[at];
  while (sequence.at < sequence.descriptors.size() && has_all(sequence)) {
    const Descriptor& d = sequence.descriptors[sequence.at];
    if (now() < sequence.ready) return;
    if (d.reduce && d.named_count != 0 && !std::exchange(sequence.added, true)) {
      sequence.ready = add(sequence, std::uint64_t{d.data_bytes} * d.named_count);
      push(sequence.ready, kStep, at);
      return;
    }
    const bool own_end = d.collective_end && d.destination == names_[sequence.node];
    if (d.destination != trigger::kNoNode && !own_end) post(sequence, d);
    ++sequence.at;
    sequence.added = false;
  }
  if (sequence.at < sequence.descriptors.size() || std::exchange(sequence.ended, true)) return;
  --running_;
  report_.time = std::max(report_.time, now());
  if (sequence.node == kRoot) report_.root_time = std::max(report_.root_time, now());
}

// The instant at which an addition (T_Compute) ends. If jobs share a node's link, they also queue
// for the node's memory, which additions and transfers both use.
Picoseconds HostNetwork::add(const Sequence& sequence, std::uint64_t bytes) {
  if (!spec_.shared_links) return now() + compute_.time_of(bytes);
  Picoseconds& free = link_free_[sequence.node];
  free = std::max(free, now()) + compute_.time_of(bytes);
  return free;
}

void HostNetwork::post(const Sequence& sequence, const Descriptor& d) {
  const OffloadLatency& latency = spec_.latency;
  const std::uint32_t to = index(d.destination);
  const bool transfer =
      spec_.kind == CollectiveKind::broadcast && d.kind == trigger::PayloadKind::rdma;
  const auto message = static_cast<std::uint32_t>(messages_.size());
  messages_.push_back({{d.job, names_[sequence.node], d.source_port, d.step},
                       to,
                       (to * spec_.jobs + sequence.job) * ports_ + index(d.destination_port),
                       kHeaderBytes + d.data_bytes,
                       transfer});
  const Picoseconds control = transfer ? latency.message() : Picoseconds{};
  push(now() + control + latency.processor + latency.bus, kSend, sequence.node, message);
}

void HostNetwork::send(std::uint32_t at) {
  const Message& message = messages_[at];
  const std::uint32_t node = index(message.key.node);
  Picoseconds& free =
      link_free_[spec_.shared_links ? node : node * spec_.jobs + index(message.key.job)];
  free = std::max(free, now()) + memory_.time_of(message.bytes);
  const Picoseconds poll = message.transfer ? spec_.latency.poll : Picoseconds{};
  push(free + spec_.latency.network + spec_.latency.bus + poll, kVisible, message.to, at);
}

Result<HostNetworkReport> HostNetwork::run() {
  if (Status built = build(); !built) return built;
  Event event;
  while (queue_.pop(event)) {
    const auto argument = static_cast<std::uint32_t>(event.argument);
    if (kind_of(event) == kStep) {
      step(target_of(event));
    } else if (kind_of(event) == kSend) {
      send(argument);
    } else {
      seen_.insert(name(messages_[argument].to, messages_[argument].key));
      step(messages_[argument].sequence);
    }
  }
  if (running_ != 0) {
    return failure(Code::internal,
                   "host-based collective: {} sequences of descriptors wait for messages that "
                   "never arrive: report this as a defect",
                   running_);
  }
  report_.messages = messages_.size();
  report_.digest = queue_.digest();
  return report_;
}

}  // namespace

Result<HostNetworkReport> run_host_network(const HostNetworkSpec& spec) {
  return HostNetwork(spec).run();
}

}  // namespace tutti::simulation
