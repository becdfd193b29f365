// Maps each port of each job to a trigger unit ([Xu25] 1.1).
//
// A packet may arrive before the sequence that reads it. The first packet or sequence of a port
// binds the port to the least loaded unit. All later packets and sequences of the port go to the
// same unit. The binding ends when no sequence runs on the port and no packet waits for a sequence.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "trigger/packet_key.hpp"

namespace tutti::trigger {

class UnitDirectory {
 public:
  /// `ports` is the number of ports of each job, at most kPorts.
  UnitDirectory(std::uint32_t units, std::uint32_t jobs, std::uint32_t ports);

  /// The unit to which a port is bound, if any.
  std::optional<std::uint32_t> unit_of(JobId job, Port port) const;
  /// Binds an unbound port to a unit. Returns false if the port is out of range or too many jobs
  /// have bound ports.
  bool bind(JobId job, Port port, std::uint32_t unit);

  void sequence_started(JobId job, Port port);
  void sequence_ended(JobId job, Port port);
  void packet_stored(JobId job, Port port);
  void packets_consumed(JobId job, Port port, std::uint32_t count);
  /// Unbinds a bound port if it has neither a sequence nor a packet.
  void release_idle(JobId job, Port port);
  /// Unbinds all ports of a job, even if sequences or packets wait there.
  void forget(JobId job);

  std::uint32_t bound_ports(std::uint32_t unit) const { return bound_ports_[unit]; }
  std::uint32_t jobs() const { return jobs_; }
  std::uint32_t jobs_high_water() const { return jobs_high_water_; }

 private:
  static constexpr std::uint8_t kNoSlot = 0xff;
  static constexpr std::uint8_t kNoUnit = 0xff;

  struct Binding {
    std::uint8_t unit = kNoUnit;
    std::uint16_t sequences = 0;
    std::uint32_t packets = 0;
  };

  Binding* find(JobId job, Port port);
  const Binding* find(JobId job, Port port) const;
  void unbind(std::uint8_t slot, Binding& binding);

  std::uint32_t ports_;
  std::array<std::uint8_t, kJobIds> slot_of_job_;
  /// Binding of each port, indexed by job slot (the place of a job in this directory) and port.
  std::vector<Binding> bindings_;
  std::vector<JobId> job_of_slot_;
  /// Number of bound ports of each job, indexed by job slot; 0 if no job has the slot.
  std::vector<std::uint32_t> slot_ports_;
  std::vector<std::uint32_t> bound_ports_;  ///< number of bound ports of each unit
  std::uint32_t jobs_ = 0;
  std::uint32_t jobs_high_water_ = 0;
};

}  // namespace tutti::trigger
