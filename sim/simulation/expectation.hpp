// The outcome that the faults of a configuration allow, computed before the run: every collective
// completes, or ends with an error that names a rank at fault.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/simulation/config.hpp"

namespace tutti::simulation {

/// The state of one host as other hosts see it, under all faults of the configuration together.
enum class HostFate : std::uint8_t {
  sound,    ///< no error may name the host
  stopped,  ///< the host's pauses and outages together are longer than the peer timeout
  /// A path between the host and a peer loses all packets, or all long packets, in one direction.
  end_of_path,
  /// Outages cut the host off from all peers, in one direction or both, for longer than the peer
  /// timeout.
  cut_off,
  dead,
};

class Expectation {
 public:
  explicit Expectation(const WorldConfig& config);

  /// True if an error in a communicator on `hosts` may name the ranks on the hosts `named`. An
  /// error may name one rank, which is at fault, or the two ends of a path, of which at least one
  /// is at fault.
  bool may_name(std::span<const sim::HostId> named, std::span<const sim::HostId> hosts) const;
  /// The longest time for which a living host does not answer, or does not hear, a peer.
  Nanoseconds longest_absence() const { return longest_absence_; }

 private:
  HostFate fate(sim::HostId host) const { return fates_[index(host)]; }
  void worsen(std::uint32_t host, HostFate fate);

  std::vector<HostFate> fates_;
  Nanoseconds longest_absence_{0};
};

}  // namespace tutti::simulation
