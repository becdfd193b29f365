#include "trigger/unit_bank.hpp"

#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace tutti::trigger {

UnitBank::UnitBank(const Settings& settings)
    : settings_(settings),
      directory_(settings.units, settings.jobs, settings.ports),
      completions_(std::size_t{settings.units} * settings.unit.sequences),
      messages_(settings.messages),
      point_to_point_(settings.unit.outbox_packets, settings.unit.slot_bytes) {
  for (std::uint32_t i = 0; i < settings.units; ++i) {
    units_.push_back(std::make_unique<TriggerUnit>(settings.node, settings.unit, memory_,
                                                   directory_, completions_));
  }
}

// Finds the unit with the fewest bound ports; among equals, the one with the fewest packets in its
// buffer.
std::uint32_t UnitBank::least_loaded() const {
  const auto load = [this](std::uint32_t unit) {
    return std::pair(directory_.bound_ports(unit), units_[unit]->buffer().counters().occupied);
  };
  std::uint32_t best = 0;
  for (std::uint32_t unit = 1; unit < units(); ++unit) {
    if (load(unit) < load(best)) best = unit;
  }
  return best;
}

TriggerUnit* UnitBank::unit_for(JobId job, Port port) {
  if (const auto bound = directory_.unit_of(job, port)) return units_[*bound].get();
  const std::uint32_t unit = least_loaded();
  return directory_.bind(job, port, unit) ? units_[unit].get() : nullptr;
}

Status UnitBank::post(std::vector<Descriptor> sequence, Instant now) {
  if (Status status = check_sequence(sequence); !status) return status;
  const JobId job = sequence[0].job;
  const Port port = sequence[0].source_port;
  if (index(port) >= settings_.ports) {
    return failure(Code::invalid_argument,
                   "offload: job {} uses port {}, which does not exist: use a port below {}",
                   index(job), index(port), settings_.ports);
  }
  TriggerUnit* unit = unit_for(job, port);
  if (unit == nullptr) {
    ++counters_.posts_deferred;
    return failure(Code::resource_exhausted,
                   "offload: job {} cannot start, because {} jobs run already: post again later",
                   index(job), settings_.jobs);
  }
  Status status = unit->start(std::move(sequence), now);
  if (status.code() == Code::resource_exhausted) ++counters_.posts_deferred;
  if (!status) directory_.release_idle(job, port);
  return status;
}

Status UnitBank::send_point_to_point(const Descriptor& d) {
  if (d.collective || d.named_count != 0 || d.reduce) {
    return failure(Code::invalid_argument,
                   "offload: the descriptor of job {} is not a point-to-point message but part of "
                   "a collective: post it in a sequence",
                   index(d.job));
  }
  std::span<const std::byte> data = std::span(d.data).first(
      d.kind == PayloadKind::mini ? std::min<std::size_t>(d.data_bytes, kMaxMiniBytes) : 0);
  if (d.kind == PayloadKind::rdma) {
    const auto found = memory_.find(d.job, d.address, d.data_bytes);
    if (!found) {
      return failure(
          Code::invalid_argument,
          "offload: job {} has not registered the {} bytes at {:#x}: register them first",
          index(d.job), d.data_bytes, static_cast<std::uint64_t>(d.address));
    }
    data = *found;
  }
  if (point_to_point_.full()) {
    return failure(Code::resource_exhausted,
                   "offload: {} point-to-point messages fill the outbox: send again later",
                   point_to_point_.size());
  }
  PacketHeader header;
  header.key = {d.job, settings_.node, d.source_port, d.step};
  header.destination = d.destination;
  header.destination_port = d.destination_port;
  header.kind = d.remote_address == kNoAddress ? PayloadKind::mini : d.kind;
  header.collective = false;
  header.trigger = false;
  header.payload_bytes = static_cast<std::uint32_t>(data.size());
  header.remote_address = d.remote_address;
  point_to_point_.push(header, data, header.kind == PayloadKind::rdma);
  return Status();
}

std::uint32_t UnitBank::close_job(JobId job) {
  std::uint32_t waited = 0;
  for (const auto& unit : units_) waited += unit->abort(job);
  point_to_point_.copy_from_memory(job);
  directory_.forget(job);
  memory_.remove(job);
  return waited;
}

UnitBank::Delivered UnitBank::counted(Delivered delivered) {
  if (delivered == Delivered::accepted) ++counters_.packets;
  if (delivered == Delivered::pushed_back) ++counters_.pushed_back;
  if (delivered == Delivered::refused) ++counters_.refused;
  return delivered;
}

UnitBank::Delivered UnitBank::deliver(const PacketHeader& header,
                                      std::span<const std::byte> payload) {
  if (header.destination != settings_.node || payload.size() != header.payload_bytes) {
    return counted(Delivered::refused);
  }
  const bool rdma = header.kind == PayloadKind::rdma;
  const auto place = rdma ? memory_.find(header.key.job, header.remote_address, payload.size())
                          : std::optional<std::span<std::byte>>();
  if (rdma && !place && !payload.empty()) return counted(Delivered::refused);
  Delivered delivered = Delivered::accepted;
  if (header.collective && header.trigger) {
    delivered = deliver_trigger(header, payload);
  } else if (!rdma) {
    delivered = deliver_message(header, payload);
  }
  if (delivered == Delivered::accepted && rdma && !payload.empty()) {
    std::memmove(place->data(), payload.data(), payload.size());
  }
  return counted(delivered);
}

UnitBank::Delivered UnitBank::deliver_trigger(const PacketHeader& header,
                                              std::span<const std::byte> payload) {
  if (index(header.destination_port) >= settings_.ports) return Delivered::refused;
  TriggerUnit* unit = unit_for(header.key.job, header.destination_port);
  if (unit == nullptr) return Delivered::pushed_back;
  const HashBuffer::Wrote wrote = unit->deliver(header, payload);
  if (wrote == HashBuffer::Wrote::stored || wrote == HashBuffer::Wrote::woke) {
    directory_.packet_stored(header.key.job, header.destination_port);
    return Delivered::accepted;
  }
  directory_.release_idle(header.key.job, header.destination_port);
  return wrote == HashBuffer::Wrote::too_long ? Delivered::refused : Delivered::pushed_back;
}

UnitBank::Delivered UnitBank::deliver_message(const PacketHeader& header,
                                              std::span<const std::byte> payload) {
  if (messages_.full()) return Delivered::pushed_back;
  messages_.push({header, {payload.begin(), payload.end()}});
  return Delivered::accepted;
}

PacketOutbox* UnitBank::next_outbox() {
  if (!point_to_point_.empty()) return &point_to_point_;
  for (std::uint32_t i = 0; i < units(); ++i) {
    const std::uint32_t at = (next_outbox_ + i) % units();
    if (units_[at]->outbox().empty()) continue;
    next_outbox_ = (at + 1) % units();
    return &units_[at]->outbox();
  }
  return nullptr;
}

std::size_t UnitBank::poll(Instant now) {
  std::size_t fired = 0;
  for (const auto& unit : units_) fired += unit->poll(now);
  return fired;
}

}  // namespace tutti::trigger
