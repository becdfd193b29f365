#include "studies/smartnic/datapath_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/shared_bits.hpp"
#include "engine/receive/receive_worker.hpp"
#include "sim/fabric/event_queue.hpp"

namespace tutti::simulation {

using sim::Event;
using sim::EventKind;
using sim::Picoseconds;

namespace {

constexpr EventKind kSend = EventKind{16};    // event: the link is free
constexpr EventKind kArrive = EventKind{17};  // event: a completion is visible to a thread
constexpr EventKind kAccess = EventKind{18};  // event: a thread continues after a memory access
constexpr EventKind kCopied = EventKind{19};  // event: a staging slot is free again
constexpr EventKind kCredit = EventKind{20};  // event: a credit for a chunk reaches the client
// Bytes of a datagram's headers: LRH 8, GRH 40, BTH 12, DETH 8, immediate 4 and CRC 4.
constexpr std::uint32_t kDatagramHeader = 76;
// Bytes of a UC packet's headers: as for a datagram, but with RETH 16 instead of DETH 8.
constexpr std::uint32_t kConnectedHeader = 84;
constexpr std::uint64_t kMemory = 1;  // random stream of the memory latencies
constexpr std::uint32_t kEpoch = 1;

/// Fills `bytes` with the data that the client sends and that the receive buffer must contain at
/// the end.
void fill_expected(std::vector<std::byte>& bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = mix(at);
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
  }
}

Picoseconds of_cycles(double cycles, double hertz) {
  return {static_cast<std::int64_t>(cycles / hertz * 1e12 + 0.5)};
}

/// The queue pair of one connection, from which a thread takes one completion at a time.
class OffloadedPair final : public device::MulticastQueuePair {
 public:
  struct Arrived {
    std::uint32_t psn = 0;
    std::uint32_t place = 0;  ///< index of the chunk's staging slot
    std::span<const std::byte> bytes{};
  };
  struct Copy {
    std::uint32_t place = 0;
    std::byte* destination = nullptr;
  };

  OffloadedPair(bool staging, std::uint32_t places, std::uint32_t chunk_bytes, Rank source)
      : staging_(staging), chunk_bytes_(chunk_bytes), source_(source) {
    if (!staging) return;
    memory_.resize(std::size_t{places} * chunk_bytes);
    lengths_.resize(places);
    for (std::uint32_t place = places; place-- > 0;) free_.push_back(place);
  }

  /// Receives a chunk into a posted staging slot, or directly into its destination.
  void arrive(std::uint32_t psn, std::span<const std::byte> bytes, std::byte* destination) {
    std::uint32_t place = 0;
    if (staging_) {
      place = free_.back();
      free_.pop_back();
      lengths_[place] = bytes.size();
      destination = memory_.data() + std::size_t{place} * chunk_bytes_;
      most_used = std::max(most_used, static_cast<std::uint32_t>(lengths_.size() - free_.size()));
    }
    std::memcpy(destination, bytes.data(), bytes.size());
    completions.push_back({psn, place, {destination, bytes.size()}});
  }
  /// Finishes the copy of a chunk from its staging slot to its destination.
  void copied(const Copy& copy) {
    std::memcpy(copy.destination, memory_.data() + std::size_t{copy.place} * chunk_bytes_,
                lengths_[copy.place]);
    free_.push_back(copy.place);
  }

  std::size_t poll(std::span<device::ReceivedChunk> chunks) override {
    if (completions.empty() || chunks.empty()) return 0;
    const Arrived& one = completions.front();
    chunks[0] = {.epoch = kEpoch, .psn = one.psn, .source = source_, .payload = one.bytes};
    return 1;
  }
  /// Posts the copy of a chunk if the chunk lies in staging. Always returns true, because the
  /// interface has already checked the CRC.
  bool copy_and_verify(const device::ReceivedChunk&, std::byte* destination) override {
    if (staging_) copies.push_back({completions.front().place, destination});
    return true;
  }
  void release() override { completions.pop_front(); }
  Result<std::uint32_t> post(const device::ChunkRun&) override { return std::uint32_t{0}; }
  std::uint64_t unsent_bytes() override { return 0; }
  Status post_probe(std::uint32_t, std::uint32_t) override { return {}; }

  std::deque<Arrived> completions{};
  std::deque<Copy> copies{};  ///< posted copies, in order of execution
  std::uint32_t most_used = 0;

 private:
  bool staging_;
  std::uint32_t chunk_bytes_;
  Rank source_;
  std::vector<std::byte> memory_;
  std::vector<std::size_t> lengths_;
  std::vector<std::uint32_t> free_;
};

class DatapathRun {
 public:
  explicit DatapathRun(const DatapathSpec& spec);
  Result<DatapathReport> run();

 private:
  struct Thread {
    std::unique_ptr<OffloadedPair> pair;
    std::unique_ptr<engine::ReceiveWorker> worker;
    std::uint32_t next_psn = 0;  ///< PSN of the next chunk that the client sends
    std::uint32_t window = 0;    ///< number of chunks for which the client has credits
    std::uint32_t accesses_left = 0;
    Picoseconds busy{};  ///< time that the thread has spent on completions
    Picoseconds began{};
    std::uint64_t handled = 0;
  };
  struct Core {
    Picoseconds issue_free{};
    Picoseconds memory_free{};
  };

  void cost_completions();
  bool eligible(std::uint32_t thread) const;
  void send(Picoseconds now);
  void arrive(const Event& event);
  void access(std::uint32_t thread, Picoseconds now);
  void finish(std::uint32_t thread, Picoseconds now);
  void push(Picoseconds at, EventKind kind, std::uint32_t target, std::uint64_t argument = 0) {
    queue_.push({at, event_key(kind, target), argument});
  }

  const DatapathSpec& spec_;
  sim::EventQueue queue_;
  protocol::BlockLayout layout_;
  protocol::ChunkMap map_;
  SharedBitmap read_locked_;
  std::vector<std::byte> sent_;
  std::vector<std::byte> buffer_;
  engine::ReceiveView view_;
  engine::ReceiveBoard board_;
  std::vector<Thread> threads_;
  std::vector<Core> cores_;
  sim::NicModel bus_;
  sim::WireSpeed link_;

  std::uint32_t accesses_ = 1;
  /// Time for which a thread occupies the issue slot between two memory accesses.
  Picoseconds issue_{};
  /// Time between two memory accesses in which a thread uses no shared resource.
  Picoseconds latency_{};
  Picoseconds doorbell_{};
  double memory_ps_ = 0;  ///< mean time of a memory access, in picoseconds
  std::uint64_t draws_ = 0;
  Picoseconds doorbell_free_{};
  std::uint32_t turn_ = 0;
  bool link_busy_ = false;
  Picoseconds first_{-1};
  Picoseconds last_{};
};

/// The layout of the buffer: one block of whole chunks for each thread.
protocol::BlockLayout make_layout(const DatapathSpec& spec) {
  protocol::BlockLayout layout(spec.chunk_bytes, 1, spec.buffer_bytes);
  const std::uint64_t chunks = (spec.buffer_bytes + spec.chunk_bytes - 1) / spec.chunk_bytes;
  for (std::uint32_t t = 0; t < spec.threads; ++t) {
    const std::uint64_t first = chunks * t / spec.threads * spec.chunk_bytes;
    const std::uint64_t last = chunks * (t + 1) / spec.threads * spec.chunk_bytes;
    (void)layout.add(rank_of(t), first, std::min(last, spec.buffer_bytes) - first);
  }
  return layout;
}

DatapathRun::DatapathRun(const DatapathSpec& spec)
    : spec_(spec),
      layout_(make_layout(spec)),
      map_(layout_),
      read_locked_(layout_.chunk_count()),
      sent_(spec.buffer_bytes),
      buffer_(spec.buffer_bytes),
      view_{.epoch = kEpoch,
            .layout = &layout_,
            .map = &map_,
            .read_locked = &read_locked_,
            .buffer = buffer_.data()},
      cores_(spec.processor.cores),
      bus_(spec.bus),
      link_(spec.link_bits_per_second) {
  fill_expected(sent_);
  board_.view.store(&view_);
  board_.wake_owner = [] {};
  for (std::uint32_t t = 0; t < spec.threads; ++t) {
    Thread& thread = threads_.emplace_back();
    thread.pair = std::make_unique<OffloadedPair>(spec.staging, spec.window_chunks,
                                                  spec.chunk_bytes, rank_of(t));
    thread.worker = std::make_unique<engine::ReceiveWorker>(board_, 0);
    thread.worker->add(0, *thread.pair);
    thread.next_psn = layout_.blocks()[t].psns.first;
    thread.window = spec.window_chunks;
  }
  cost_completions();
}

/// Splits the cycles of a completion into time on shared resources, and time in which other threads
/// can use these resources.
void DatapathRun::cost_completions() {
  const sim::CompletionWork& work = work_of(spec_);
  const sim::ThreadedProcessor& processor = spec_.processor;
  accesses_ = std::max(
      1u, static_cast<std::uint32_t>(std::lround(work.instructions * processor.memory_share)));
  const double issue_cycles = work.instructions / processor.issue_per_cycle;
  const double doorbell_cycles = processor.hertz / processor.doorbells_per_second;
  const double memory_cycles = accesses_ * processor.memory_cycles;
  const double rest = work.cycles - issue_cycles - memory_cycles - doorbell_cycles;
  issue_ = of_cycles(issue_cycles / accesses_, processor.hertz);
  latency_ = of_cycles(std::max(rest, 0.0) / accesses_, processor.hertz);
  doorbell_ = of_cycles(doorbell_cycles, processor.hertz);
  memory_ps_ = processor.memory_cycles / processor.hertz * 1e12;
}

bool DatapathRun::eligible(std::uint32_t thread) const {
  const Thread& one = threads_[thread];
  return one.window > 0 && one.next_psn < layout_.blocks()[thread].psns.last;
}

/// Lets the client send one chunk to the next connection whose window has room, in round-robin
/// order.
void DatapathRun::send(Picoseconds now) {
  link_busy_ = false;
  for (std::uint32_t tried = 0; tried < spec_.threads; ++tried) {
    const std::uint32_t t = (turn_ + tried) % spec_.threads;
    if (!eligible(t)) continue;
    Thread& thread = threads_[t];
    const protocol::Block& block = layout_.blocks()[t];
    const std::uint32_t psn = thread.next_psn++;
    --thread.window;
    turn_ = t + 1;
    const std::uint32_t bytes = layout_.length_of(block, psn);
    const std::uint32_t packets = (bytes + spec_.packet_bytes - 1) / spec_.packet_bytes;
    const std::uint32_t header = spec_.staging ? kDatagramHeader : kConnectedHeader;
    const Picoseconds left = now + link_.time_of(bytes + std::uint64_t{packets} * header);
    const Picoseconds arrived = left + spec_.link_latency;
    if (first_.count < 0) first_ = now + spec_.link_latency;
    // Without staging, the interface writes the data over the bus as soon as it arrives. The
    // completion does not cross the bus, because its thread runs on the interface.
    if (!spec_.staging) last_ = std::max(last_, bus_.delivered(arrived, bytes, false));
    push(arrived + spec_.bus.local_latency, kArrive, t, psn);
    push(left, kSend, 0);
    link_busy_ = true;
    return;
  }
}

void DatapathRun::arrive(const Event& event) {
  const std::uint32_t t = target_of(event);
  Thread& thread = threads_[t];
  const auto psn = static_cast<std::uint32_t>(event.argument);
  const protocol::Block& block = layout_.blocks()[t];
  const std::uint64_t offset = layout_.offset_of(block, psn);
  const bool idle = thread.pair->completions.empty();
  thread.pair->arrive(psn, std::span(sent_).subspan(offset, layout_.length_of(block, psn)),
                      buffer_.data() + offset);
  if (!idle) return;
  thread.began = event.time;
  thread.accesses_left = accesses_;
  access(t, event.time);
}

/// Lets a thread issue instructions up to its next memory access, make the access and wait. After
/// its last access the thread rings the doorbell.
void DatapathRun::access(std::uint32_t t, Picoseconds now) {
  Thread& thread = threads_[t];
  if (thread.accesses_left == 0) return finish(t, now);
  --thread.accesses_left;
  Core& core = cores_[t / spec_.processor.threads_per_core];
  core.issue_free = std::max(now, core.issue_free) + issue_;
  const std::uint64_t drawn = draw(spec_.seed, kMemory, draws_++);
  const double uniform = (static_cast<double>(drawn >> 11) + 0.5) * 0x1p-53;
  const Picoseconds taken{static_cast<std::int64_t>(-memory_ps_ * std::log(uniform))};
  core.memory_free = std::max(core.issue_free, core.memory_free) + taken;
  Picoseconds next = core.memory_free + latency_;
  if (thread.accesses_left == 0) {
    doorbell_free_ = std::max(next, doorbell_free_) + doorbell_;
    next = doorbell_free_;
  }
  push(next, kAccess, t);
}

/// Finishes the handling of a completion: the receive worker processes its chunk. Then the copy
/// that the worker posted starts or, without a copy, the client gets its credit.
void DatapathRun::finish(std::uint32_t t, Picoseconds now) {
  Thread& thread = threads_[t];
  const std::size_t copies = thread.pair->copies.size();
  thread.worker->poll(to_instant(now));
  ++thread.handled;
  thread.busy += now - thread.began;
  last_ = std::max(last_, now);
  if (thread.pair->copies.size() > copies) {
    push(bus_.delivered(now + spec_.copy_latency, spec_.chunk_bytes, false), kCopied, t);
  } else {
    push(now + spec_.link_latency, kCredit, t);
  }
  if (thread.pair->completions.empty()) return;
  thread.began = now;
  thread.accesses_left = accesses_;
  access(t, now);
}

Result<DatapathReport> DatapathRun::run() {
  push({}, kSend, 0);
  Event event;
  while (queue_.pop(event)) {
    const std::uint32_t t = target_of(event);
    if (kind_of(event) == kSend) {
      send(event.time);
    } else if (kind_of(event) == kArrive) {
      arrive(event);
    } else if (kind_of(event) == kAccess) {
      access(t, event.time);
    } else if (kind_of(event) == kCopied) {
      OffloadedPair& pair = *threads_[t].pair;
      pair.copied(pair.copies.front());
      pair.copies.pop_front();
      last_ = std::max(last_, event.time);
      push(event.time + spec_.link_latency, kCredit, t);
    } else {
      ++threads_[t].window;
      if (!link_busy_) send(event.time);
    }
  }
  DatapathReport report;
  report.time = last_ - first_ + spec_.operation_cost;
  report.digest = queue_.digest();
  report.chunks_missing = layout_.chunk_count() - map_.marked();
  for (std::size_t i = 0; i < buffer_.size(); ++i) report.wrong_bytes += buffer_[i] != sent_[i];
  Picoseconds busy{};
  for (const Thread& thread : threads_) {
    report.completions += thread.handled;
    report.most_staged = std::max(report.most_staged, thread.pair->most_used);
    busy += thread.busy;
  }
  const double seconds = to_seconds(report.time);
  report.completions_per_second = static_cast<double>(report.completions) / seconds;
  report.bytes_per_second = static_cast<double>(spec_.buffer_bytes) / seconds;
  report.cycles_per_completion =
      to_seconds(busy) * spec_.processor.hertz / static_cast<double>(report.completions);
  return report;
}

}  // namespace

const sim::CompletionWork& work_of(const DatapathSpec& spec) {
  return spec.staging ? sim::kUnreliableDatagram : sim::kUnreliableConnected;
}

Result<DatapathReport> run_datapath(const DatapathSpec& spec) {
  const std::uint32_t most = spec.processor.cores * spec.processor.threads_per_core;
  if (spec.threads < 1 || spec.threads > most) {
    return failure(Code::invalid_argument, "{} threads are not possible: use 1 to {}", spec.threads,
                   most);
  }
  if (spec.chunk_bytes == 0 || spec.buffer_bytes / spec.chunk_bytes < spec.threads) {
    return failure(Code::invalid_argument,
                   "a buffer of {} bytes has no chunk of {} bytes for each of {} threads: use "
                   "chunks of 1 byte or more, and a buffer of at least one chunk per thread",
                   spec.buffer_bytes, spec.chunk_bytes, spec.threads);
  }
  if (spec.staging && spec.chunk_bytes > spec.packet_bytes) {
    return failure(Code::invalid_argument,
                   "a chunk of {} bytes does not fit a packet: use chunks of at most {} bytes",
                   spec.chunk_bytes, spec.packet_bytes);
  }
  return DatapathRun(spec).run();
}

double link_bytes_per_second(const DatapathSpec& spec) {
  const std::uint32_t packets = (spec.chunk_bytes + spec.packet_bytes - 1) / spec.packet_bytes;
  const std::uint32_t header = spec.staging ? kDatagramHeader : kConnectedHeader;
  const double payload = spec.chunk_bytes;
  return static_cast<double>(spec.link_bits_per_second) / 8 * payload /
         (payload + static_cast<double>(packets * header));
}

Result<std::uint32_t> threads_for_link(DatapathSpec spec, double share) {
  const std::uint32_t most = spec.processor.cores * spec.processor.threads_per_core;
  const auto bytes = static_cast<double>(spec.buffer_bytes);
  const double at_best =
      bytes / (bytes / link_bytes_per_second(spec) + to_seconds(spec.operation_cost));
  for (spec.threads = 1; spec.threads <= most; spec.threads *= 2) {
    const auto report = run_datapath(spec);
    if (!report) return report.status();
    if (report->bytes_per_second >= share * at_best) return spec.threads;
  }
  return std::uint32_t{0};
}

}  // namespace tutti::simulation
