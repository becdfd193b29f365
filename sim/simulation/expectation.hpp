// The outcome that the faults of a configuration allow, computed before the run: every collective
// completes, or ends with an error that names a rank at fault.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/simulation/config.hpp"

namespace tutti::simulation {

/// The effect of all faults together on what other hosts see of one host.
enum class HostFate : std::uint8_t {
  sound,        ///< no error may name it
  stopped,      ///< stopped so long that peers may find it lost
  end_of_path,  ///< cut off from a peer in one direction, perhaps only for long packets
  gone,         ///< dead, or cut off from all peers
};

class Expectation {
 public:
  explicit Expectation(const WorldConfig& config);

  /// True if an error may name a rank on this host. Errors on this host itself may also name a rank
  /// that has ended with an error: it has found this host lost and answers it no more.
  bool at_fault(sim::HostId host) const { return fate(host) != HostFate::sound; }
  /// True if an error on `host` may name any rank, because it reaches none.
  bool reaches_none(sim::HostId host) const { return fate(host) == HostFate::gone; }

 private:
  HostFate fate(sim::HostId host) const { return fates_[index(host)]; }
  void worsen(std::uint32_t host, HostFate fate);

  std::vector<HostFate> fates_;
};

}  // namespace tutti::simulation
