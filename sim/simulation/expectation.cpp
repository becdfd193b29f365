#include "sim/simulation/expectation.hpp"

#include <algorithm>

namespace tutti::simulation {

namespace {

/// The shortest time without an answer after which a host may be declared lost.
Nanoseconds patience_of(const WorldConfig& config) {
  Nanoseconds patience = Nanoseconds::max();
  for (const CommunicatorSpec& one : config.communicators) {
    patience = std::min(patience, one.peer_timeout);
  }
  return patience;
}

/// True if in at least one communicator the hosts' workers, not the NICs, answer the peers. A host
/// whose worker is paused then does not answer.
bool answers_by_worker(const WorldConfig& config) {
  return std::any_of(config.communicators.begin(), config.communicators.end(),
                     [](const CommunicatorSpec& one) {
                       return one.nic.host_serviced ||
                              one.nic.connections == device::sim::ConnectionKind::software;
                     });
}

}  // namespace

Expectation::Expectation(const WorldConfig& config) : fates_(config.topology->hosts()) {
  const Nanoseconds patience = patience_of(config);
  const std::uint32_t hosts = config.topology->hosts();
  std::vector<Nanoseconds> stopped(hosts);
  std::vector<Nanoseconds> unplugged(hosts);
  if (answers_by_worker(config)) {
    for (const Pause& one : config.pauses) stopped[index(one.host)] += one.length;
  }
  for (const Outage& one : config.outages) {
    const std::uint32_t link = index(one.link);
    if (link < 2 * hosts) {
      unplugged[link % hosts] += one.length;
    } else {
      // An outage of a link between switches counts for every host, because the path of any two
      // hosts may use the link.
      for (Nanoseconds& time : unplugged) time += one.length;
    }
  }
  for (std::uint32_t host = 0; host < hosts; ++host) {
    longest_absence_ = std::max(longest_absence_, stopped[host] + unplugged[host]);
    if (stopped[host] + unplugged[host] > patience) worsen(host, HostFate::stopped);
    if (unplugged[host] > patience) worsen(host, HostFate::cut_off);
  }
  for (const device::sim::PathFault& one : config.path_faults) {
    const bool for_ever = one.length.count() == 0;
    longest_absence_ = std::max(longest_absence_, for_ever ? Nanoseconds::max() : one.length);
    if (!for_ever && one.length <= patience) continue;
    worsen(index(one.from), HostFate::end_of_path);
    worsen(index(one.to), HostFate::end_of_path);
  }
  for (const Death& one : config.deaths) worsen(index(one.host), HostFate::dead);
}

bool Expectation::may_name(std::span<const sim::HostId> named,
                           std::span<const sim::HostId> hosts) const {
  constexpr std::size_t kEnds = 2;
  const auto at_fault = [this](sim::HostId host) { return fate(host) != HostFate::sound; };
  const auto cut_off = [this](sim::HostId host) { return fate(host) == HostFate::cut_off; };
  if (named.size() > kEnds) return false;
  if (std::any_of(named.begin(), named.end(), at_fault)) return true;
  // In a communicator of two ranks, a cut link of one rank cuts the only path, so an error may name
  // either rank.
  return !named.empty() && hosts.size() == kEnds &&
         std::any_of(hosts.begin(), hosts.end(), cut_off);
}

void Expectation::worsen(std::uint32_t host, HostFate fate) {
  fates_[host] = std::max(fates_[host], fate);
}

}  // namespace tutti::simulation
