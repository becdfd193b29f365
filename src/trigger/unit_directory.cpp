#include "trigger/unit_directory.hpp"

#include <algorithm>

namespace tutti::trigger {

UnitDirectory::UnitDirectory(std::uint32_t units, std::uint32_t jobs, std::uint32_t ports)
    : ports_(std::min(ports, kPorts)),
      bindings_(std::size_t{std::min<std::uint32_t>(jobs, kNoSlot)} * ports_),
      job_of_slot_(std::min<std::uint32_t>(jobs, kNoSlot)),
      slot_ports_(job_of_slot_.size()),
      bound_ports_(units) {
  slot_of_job_.fill(kNoSlot);
}

UnitDirectory::Binding* UnitDirectory::find(JobId job, Port port) {
  const std::uint8_t slot = slot_of_job_[index(job)];
  if (slot == kNoSlot || index(port) >= ports_) return nullptr;
  Binding& binding = bindings_[std::size_t{slot} * ports_ + index(port)];
  return binding.unit == kNoUnit ? nullptr : &binding;
}

const UnitDirectory::Binding* UnitDirectory::find(JobId job, Port port) const {
  return const_cast<UnitDirectory*>(this)->find(job, port);
}

std::optional<std::uint32_t> UnitDirectory::unit_of(JobId job, Port port) const {
  const Binding* binding = find(job, port);
  if (binding == nullptr) return std::nullopt;
  return binding->unit;
}

bool UnitDirectory::bind(JobId job, Port port, std::uint32_t unit) {
  if (index(port) >= ports_) return false;
  std::uint8_t& slot = slot_of_job_[index(job)];
  if (slot == kNoSlot) {
    const auto free = std::find(slot_ports_.begin(), slot_ports_.end(), 0u);
    if (free == slot_ports_.end()) return false;
    slot = static_cast<std::uint8_t>(free - slot_ports_.begin());
    job_of_slot_[slot] = job;
    jobs_high_water_ = std::max(jobs_high_water_, ++jobs_);
  }
  bindings_[std::size_t{slot} * ports_ + index(port)] = {static_cast<std::uint8_t>(unit), 0, 0};
  ++slot_ports_[slot];
  ++bound_ports_[unit];
  return true;
}

void UnitDirectory::unbind(std::uint8_t slot, Binding& binding) {
  --bound_ports_[binding.unit];
  binding = Binding();
  if (--slot_ports_[slot] != 0) return;
  slot_of_job_[index(job_of_slot_[slot])] = kNoSlot;
  --jobs_;
}

void UnitDirectory::release_idle(JobId job, Port port) {
  Binding* binding = find(job, port);
  if (binding == nullptr || binding->sequences != 0 || binding->packets != 0) return;
  unbind(slot_of_job_[index(job)], *binding);
}

void UnitDirectory::sequence_started(JobId job, Port port) {
  if (Binding* binding = find(job, port)) ++binding->sequences;
}

void UnitDirectory::sequence_ended(JobId job, Port port) {
  if (Binding* binding = find(job, port)) --binding->sequences;
  release_idle(job, port);
}

void UnitDirectory::packet_stored(JobId job, Port port) {
  if (Binding* binding = find(job, port)) ++binding->packets;
}

// The port stays bound even if no packet is left, because the sequence that reads the packets has
// not ended.
void UnitDirectory::packets_consumed(JobId job, Port port, std::uint32_t count) {
  if (Binding* binding = find(job, port)) binding->packets -= std::min(count, binding->packets);
}

void UnitDirectory::forget(JobId job) {
  const std::uint8_t slot = slot_of_job_[index(job)];
  if (slot == kNoSlot) return;
  for (std::uint32_t port = 0; port < ports_; ++port) {
    Binding& binding = bindings_[std::size_t{slot} * ports_ + port];
    if (binding.unit != kNoUnit) unbind(slot, binding);
  }
}

}  // namespace tutti::trigger
