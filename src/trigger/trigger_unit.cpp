#include "trigger/trigger_unit.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "reduction/reducer.hpp"

namespace tutti::trigger {
namespace {

// Bits of the tag that the hash buffer keeps with a packet; each bit is a flag of the packet's
// header.
constexpr std::uint32_t kSwapData = 1;
constexpr std::uint32_t kSwapAddress = 2;
constexpr std::uint32_t kEnd = 4;

std::uint32_t tag_of(const PacketHeader& header) {
  return (header.swap_data ? kSwapData : 0) | (header.swap_address ? kSwapAddress : 0) |
         (header.collective_end ? kEnd : 0);
}

/// True if the packet waits in the destination's hash buffer instead of going to memory.
bool goes_to_buffer(const Descriptor& d) {
  return d.kind == PayloadKind::mini || d.remote_address == kNoAddress;
}

}  // namespace

TriggerUnit::TriggerUnit(NodeId node, const UnitSettings& settings, const MemoryMap& memory,
                         UnitDirectory& directory, Ring<Completion>& completions)
    : node_(node),
      settings_(settings),
      memory_(&memory),
      directory_(&directory),
      completions_(&completions),
      buffer_(
          {settings.buffer_bytes / settings.slot_bytes, settings.slot_bytes, settings.sequences}),
      outbox_(settings.outbox_packets, settings.slot_bytes),
      sequences_(settings.sequences),
      places_(std::size_t{settings.sequences} * settings.slot_bytes) {}

std::span<std::byte> TriggerUnit::place_of(std::uint32_t at) {
  return std::span(places_).subspan(std::size_t{at} * settings_.slot_bytes, settings_.slot_bytes);
}

Status TriggerUnit::start(std::vector<Descriptor> sequence, Instant now) {
  for (const Descriptor& d : sequence) {
    if (d.data_bytes > settings_.slot_bytes && d.reduce) {
      return failure(Code::invalid_argument,
                     "offload: job {} reduces {} bytes in one descriptor: use at most {} bytes",
                     index(d.job), d.data_bytes, settings_.slot_bytes);
    }
  }
  const auto free = std::find_if(sequences_.begin(), sequences_.end(),
                                 [](const Sequence& candidate) { return !candidate.active; });
  if (free == sequences_.end()) {
    return failure(
        Code::resource_exhausted,
        "offload: the trigger unit already runs {} sequences, which is its limit: post again later",
        settings_.sequences);
  }
  directory_->sequence_started(sequence[0].job, sequence[0].source_port);
  free->active = true;
  free->parked = false;
  free->at = 0;
  free->waiting_since = now;
  free->progress = {};
  if (!free->failure.ok()) free->failure = {};
  free->descriptors = std::move(sequence);
  free->progress.destination_port = free->current().destination_port;
  free->progress.remote_address = free->current().remote_address;
  ++active_;
  ++counters_.sequences;
  return Status();
}

HashBuffer::Wrote TriggerUnit::deliver(const PacketHeader& header,
                                       std::span<const std::byte> payload) {
  const auto waiting = header.kind == PayloadKind::mini ? payload : std::span<const std::byte>();
  return buffer_.write(header.key, tag_of(header), waiting);
}

std::size_t TriggerUnit::poll(Instant now) {
  while (const auto woken = buffer_.next_woken()) sequences_[*woken].parked = false;
  std::size_t fired = 0;
  const auto count = static_cast<std::uint32_t>(sequences_.size());
  for (std::uint32_t i = 0; i < count && active_ != 0; ++i) {
    const std::uint32_t at = (first_ + i) % count;
    if (sequences_[at].active && !sequences_[at].parked) fired += run(at, now);
  }
  first_ = (first_ + 1) % count;
  if (settings_.wait_limit.count() != 0) check_waits(now);
  return fired;
}

std::size_t TriggerUnit::run(std::uint32_t at, Instant now) {
  std::size_t fired = 0;
  while (sequences_[at].active) {
    if (!sequences_[at].failure && !report_failure(at)) break;
    if (!sequences_[at].active || !gather(at, now)) break;
    if (!fire(at)) break;
    ++fired;
    next_descriptor(at);
  }
  if (sequences_[at].active && !sequences_[at].failure) report_failure(at);
  counters_.fired += fired;
  return fired;
}

// Reads the packets of the current descriptor, in the order named, up to the first that has not
// arrived. Returns true if the descriptor may fire.
bool TriggerUnit::gather(std::uint32_t at, Instant now) {
  Sequence& sequence = sequences_[at];
  const Descriptor& d = sequence.current();
  Batch batch;
  while (add_local(sequence, batch)) {
    if (sequence.progress.named == d.named_count) {
      fold(at, batch);
      return true;
    }
    const PacketKey key = d.key_of(sequence.progress.named);
    const auto packet = buffer_.peek(key);
    if (!packet) {
      fold(at, batch);
      park(at, key, now);
      return false;
    }
    if (!add_packet(at, key, *packet, batch)) break;
    ++sequence.progress.named;
  }
  fold(at, batch);
  return false;
}

// Adds the descriptor's own data to the batch if they are the next operand. Returns false if they
// lie outside the job's memory.
bool TriggerUnit::add_local(Sequence& sequence, Batch& batch) {
  const Descriptor& d = sequence.current();
  Progress& progress = sequence.progress;
  if (!d.reduce || progress.local_folded || progress.named != d.local_position) return true;
  const auto data = local_data(d);
  if (!data) {
    fail(sequence,
         failure(Code::invalid_argument,
                 "offload: job {} has not registered the {} bytes at {:#x}: register them first",
                 index(d.job), d.data_bytes, static_cast<std::uint64_t>(d.address)));
    return false;
  }
  batch.operands[batch.operand_count++] = data->data();
  progress.local_folded = true;
  return true;
}

bool TriggerUnit::add_packet(std::uint32_t at, const PacketKey& key,
                             const HashBuffer::Stored& packet, Batch& batch) {
  Sequence& sequence = sequences_[at];
  const Descriptor& d = sequence.current();
  Progress& progress = sequence.progress;
  batch.slots[batch.slot_count++] = packet.slot;
  progress.ends = progress.ends || (packet.tag & kEnd) != 0;
  if (d.swap_local_port) progress.destination_port = key.port;
  if ((packet.tag & kSwapAddress) != 0) {
    if (packet.payload.size() != sizeof(Address)) {
      fail(sequence,
           failure(Code::invalid_argument,
                   "offload: the packet {} must contain an address of {} bytes, but its payload "
                   "has {}: let descriptors with swap_remote_address send exactly one address",
                   to_string(key), sizeof(Address), packet.payload.size()));
      return false;
    }
    std::memcpy(&progress.remote_address, packet.payload.data(), sizeof(Address));
  } else if (d.reduce) {
    if (packet.payload.size() != d.data_bytes) {
      fail(sequence, failure(Code::invalid_argument,
                             "offload: the packet {} has {} bytes, but the reduction that waits "
                             "for it needs {}: send the same size from all nodes",
                             to_string(key), packet.payload.size(), d.data_bytes));
      return false;
    }
    batch.operands[batch.operand_count++] = packet.payload.data();
  } else if (d.swap_local_data || (packet.tag & kSwapData) != 0) {
    if (!packet.payload.empty()) {
      std::memcpy(place_of(at).data(), packet.payload.data(), packet.payload.size());
    }
    progress.held = true;
    progress.data_bytes = static_cast<std::uint32_t>(packet.payload.size());
  }
  return true;
}

// Folds a batch of operands into the partial result of the sequence, and frees the slots of the
// packets in the batch.
void TriggerUnit::fold(std::uint32_t at, Batch& batch) {
  Sequence& sequence = sequences_[at];
  const Descriptor& d = sequence.current();
  Progress& progress = sequence.progress;
  if (batch.operand_count != 0 && sequence.failure.ok()) {
    const auto reducer = reduction::Reducer::create(d.operation, d.type);
    auto operands = std::span<const std::byte* const>(batch.operands).first(batch.operand_count);
    std::array<const std::byte*, kMaxChildren + 3> with_partial;
    if (progress.held) {
      with_partial[0] = place_of(at).data();
      std::copy(operands.begin(), operands.end(), with_partial.begin() + 1);
      operands = std::span<const std::byte* const>(with_partial).first(batch.operand_count + 1);
    }
    reducer->combine(place_of(at).data(), operands,
                     d.data_bytes / reduction::element_bytes(d.type));
    progress.held = true;
    progress.data_bytes = d.data_bytes;
    counters_.operands += batch.operand_count;
    ++counters_.folds;
  }
  for (std::uint32_t i = 0; i < batch.slot_count; ++i) buffer_.release(batch.slots[i]);
  if (batch.slot_count != 0) {
    directory_->packets_consumed(d.job, d.source_port, batch.slot_count);
  }
}

void TriggerUnit::park(std::uint32_t at, const PacketKey& key, Instant now) {
  Sequence& sequence = sequences_[at];
  if (buffer_.park(key, at) == HashBuffer::Parked::parked) {
    sequence.parked = true;
    sequence.waiting_since = now;
    return;
  }
  fail(sequence,
       failure(Code::invalid_argument,
               "offload: two sequences wait for the packet {}: give each sequence a separate port",
               to_string(key)));
}

std::optional<std::span<const std::byte>> TriggerUnit::local_data(const Descriptor& d) const {
  if (d.kind == PayloadKind::mini) return std::span(d.data).first(d.data_bytes);
  if (d.data_bytes == 0) return std::span<const std::byte>();
  const auto found = memory_->find(d.job, d.address, d.data_bytes);
  if (!found) return std::nullopt;
  return *found;
}

// Fires the current descriptor. Returns false if the descriptor must wait or has failed.
bool TriggerUnit::fire(std::uint32_t at) {
  Sequence& sequence = sequences_[at];
  const Descriptor& d = sequence.current();
  const Progress& progress = sequence.progress;
  const bool ends = progress.ends || (d.collective_end && d.destination == node_);
  const bool sends = !ends && d.destination != kNoNode;
  if ((sends && outbox_.full()) || (ends && completions_->full())) {
    ++counters_.stalled;
    return false;
  }
  // After the end the host may change the memory to which packets in the outbox refer. The copy may
  // throw, so it comes before the steps that a later poll must not repeat.
  if (ends) outbox_.copy_from_memory(d.job, d.source_port);
  std::span<const std::byte> data = place_of(at).first(progress.held ? progress.data_bytes : 0);
  if (!progress.held) {
    const auto local = local_data(d);
    if (!local) {
      fail(sequence,
           failure(Code::invalid_argument,
                   "offload: job {} has not registered the {} bytes at {:#x}: register them first",
                   index(d.job), d.data_bytes, static_cast<std::uint64_t>(d.address)));
      return false;
    }
    data = *local;
  } else if (d.reduce && d.contributions != 0) {
    const auto reducer = reduction::Reducer::create(d.operation, d.type);
    reducer->finish(place_of(at).data(), d.data_bytes / reduction::element_bytes(d.type),
                    d.contributions);
  }
  const bool to_buffer = sends && goes_to_buffer(d) && progress.remote_address == kNoAddress;
  if (to_buffer && data.size() > settings_.slot_bytes) {
    fail(sequence, failure(Code::invalid_argument,
                           "offload: a packet of {} bytes does not fit a slot of the hash buffer: "
                           "use segments of at most {} bytes",
                           data.size(), settings_.slot_bytes));
    return false;
  }
  if (!store(sequence, data)) return false;
  if (sends) send(sequence, data);
  if (ends) completions_->push({d.job, d.source_port, Status()});
  return true;
}

bool TriggerUnit::store(Sequence& sequence, std::span<const std::byte> data) {
  const Descriptor& d = sequence.current();
  if (d.store_address == kNoAddress) return true;
  const auto place = memory_->find(d.job, d.store_address, data.size());
  if (!place || data.size() != d.data_bytes) {
    fail(sequence,
         failure(Code::invalid_argument,
                 "offload: job {0} cannot store a result of {1} bytes at {2:#x} for a descriptor "
                 "of {4} bytes, because {3}: register the memory, and give the descriptor the size "
                 "of the result",
                 index(d.job), data.size(), static_cast<std::uint64_t>(d.store_address),
                 place ? "the descriptor has another size" : "the memory is not registered",
                 d.data_bytes));
    return false;
  }
  if (!data.empty()) std::memmove(place->data(), data.data(), data.size());
  return true;
}

// RDMA data are not copied: the network reads them from memory when it takes the packet. Folded or
// swapped data are copied into the packet.
void TriggerUnit::send(const Sequence& sequence, std::span<const std::byte> data) {
  const Descriptor& d = sequence.current();
  const Progress& progress = sequence.progress;
  PacketHeader header;
  header.key = {d.job, node_, d.source_port, d.step};
  header.destination = d.destination;
  header.destination_port = progress.destination_port;
  header.trigger = d.trigger;
  header.swap_data = d.swap_remote_data;
  header.swap_address = d.swap_remote_address;
  header.collective_end = d.collective_end;
  header.payload_bytes = static_cast<std::uint32_t>(data.size());
  if (d.kind == PayloadKind::rdma && progress.remote_address != kNoAddress) {
    header.kind = PayloadKind::rdma;
    header.remote_address = progress.remote_address;
  }
  outbox_.push(header, data, header.kind == PayloadKind::rdma && !progress.held);
}

void TriggerUnit::next_descriptor(std::uint32_t at) {
  Sequence& sequence = sequences_[at];
  if (sequence.current().tail) {
    end(at);
    return;
  }
  ++sequence.at;
  sequence.progress = Progress();
  sequence.progress.destination_port = sequence.current().destination_port;
  sequence.progress.remote_address = sequence.current().remote_address;
}

void TriggerUnit::fail(Sequence& sequence, Status status) {
  sequence.parked = false;
  sequence.failure = std::move(status);
  ++counters_.failures;
}

// Reports a failed sequence to the host and ends it. Returns false if the completion queue is full.
bool TriggerUnit::report_failure(std::uint32_t at) {
  Sequence& sequence = sequences_[at];
  if (completions_->full()) return false;
  const Descriptor& d = sequence.current();
  outbox_.copy_from_memory(d.job, d.source_port);
  completions_->push({d.job, d.source_port, std::move(sequence.failure)});
  end(at);
  return true;
}

void TriggerUnit::end(std::uint32_t at) {
  Sequence& sequence = sequences_[at];
  buffer_.cancel(at);
  directory_->sequence_ended(sequence.current().job, sequence.current().source_port);
  sequence.active = false;
  --active_;
}

void TriggerUnit::check_waits(Instant now) {
  for (std::uint32_t at = 0; at < sequences_.size(); ++at) {
    Sequence& sequence = sequences_[at];
    if (!sequence.active || !sequence.parked) continue;
    const Nanoseconds waited = now - sequence.waiting_since;
    if (waited <= settings_.wait_limit) continue;
    const PacketKey key = sequence.current().key_of(sequence.progress.named);
    buffer_.cancel(at);
    fail(sequence, failure(Code::timeout,
                           "offload: a sequence failed after it waited {} ns for the packet {}: "
                           "check the node that must send the packet",
                           waited.count(), to_string(key)));
    report_failure(at);
  }
}

std::uint32_t TriggerUnit::abort(JobId job) {
  for (std::uint32_t at = 0; at < sequences_.size(); ++at) {
    if (sequences_[at].active && sequences_[at].current().job == job) end(at);
  }
  outbox_.copy_from_memory(job);
  return buffer_.discard(job);
}

}  // namespace tutti::trigger
