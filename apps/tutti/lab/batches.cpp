#include "lab/batches.hpp"

#include <fmt/format.h>

#include "lab/rules.hpp"

namespace tutti::lab {

namespace {

/// Length of the queue of a rate-limited port, in bytes. The queue models the buffer that a
/// switch has for each port.
constexpr int kQueueBytes = 1'000'000;

/// The commands that set the routes of a host. A route also selects TCP's congestion control,
/// because the kernel allows only some algorithms as the default of a network namespace.
std::string routes_batch(const LabOptions& options, int number) {
  std::string batch = "route add 224.0.0.0/4 dev eth0\n";
  if (options.congestion_control.empty()) return batch;
  batch += fmt::format("route replace 10.77.0.0/24 dev eth0 src 10.77.0.{} congctl {}\n", number,
                       options.congestion_control);
  if (!options.ipv6) return batch;
  return batch +
         fmt::format("route replace fd77::/64 dev eth0 proto kernel metric 256 congctl {}\n",
                     options.congestion_control);
}

/// In a lab of at most this many hosts and aggregators, each resolves the Ethernet addresses of the
/// others. A larger lab has permanent neighbour entries instead, because the kernel limits the
/// number of non-permanent entries in all network namespaces together (gc_thresh3).
constexpr int kMaxResolvingPlaces = 30;

/// The Ethernet address of the host or aggregator whose IP address ends in `number`.
std::string ethernet_address(int number) { return fmt::format("02:77:00:00:00:{:02x}", number); }

std::string neighbours_batch(const LabOptions& options, int number) {
  std::string batch;
  if (options.hosts + options.aggregators <= kMaxResolvingPlaces) return batch;
  const auto add = [&](int other) {
    if (other == number) return;
    const std::string to = fmt::format("lladdr {} dev eth0 nud permanent", ethernet_address(other));
    batch += fmt::format("neigh replace 10.77.0.{} {}\n", other, to);
    if (options.ipv6) batch += fmt::format("neigh replace fd77::{:x} {}\n", other, to);
  };
  for (int host = 0; host < options.hosts; ++host) add(host + 1);
  for (int one = 0; one < options.aggregators; ++one) add(aggregator_number(one));
  return batch;
}

/// The name of the switch's port for an aggregator.
std::string aggregator_port(int aggregator) { return fmt::format("q{}", aggregator); }

/// The commands that make the link between a port of the switch and the host or aggregator whose IP
/// address ends in `number`.
std::string link(const LabOptions& options, const std::string& port, const std::string& space,
                 int number) {
  return fmt::format(
      "link add {0} mtu {1} type veth peer name eth0 address {3} netns {2} mtu {1}\n"
      "link set {0} master br0\n"
      "link set {0} type bridge_slave fastleave on\n",
      port, options.mtu, space, ethernet_address(number));
}

}  // namespace

std::string bridge_batch() {
  return "link set lo up\n"
         "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 1 mcast_querier 0 "
         "mcast_query_response_interval 1 mcast_startup_query_interval 100 mcast_igmp_version 3\n";
}

std::string querier_batch() {
  return "link set br0 type bridge mcast_querier 1\n"
         "link set br0 type bridge mcast_query_response_interval 10\n";
}

std::string links_batch(const LabOptions& options, const std::string& prefix) {
  std::string batch;
  for (int host = 0; host < options.hosts; ++host) {
    batch += link(options, port_name(host), fmt::format("{}h{}", prefix, host), host + 1);
  }
  for (int one = 0; one < options.aggregators; ++one) {
    batch += link(options, aggregator_port(one), fmt::format("{}a{}", prefix, one),
                  aggregator_number(one));
  }
  return batch;
}

int aggregator_number(int aggregator) { return kMaximumHosts + 1 + aggregator; }

std::string ports_up_batch(const LabOptions& options) {
  std::string batch = fmt::format("link set br0 mtu {} up\n", options.mtu);
  for (int one = 0; one < options.aggregators; ++one) {
    batch += fmt::format("link set {} up\n", aggregator_port(one));
  }
  for (int host = 0; host < options.hosts; ++host) {
    batch += fmt::format("link set {} up\n", port_name(host));
  }
  return batch;
}

std::string shaper(const std::string& device, const LabOptions& options) {
  return fmt::format("qdisc add dev {} root tbf rate {}bit burst {} limit {}\n", device,
                     options.rate_bits_per_second, burst_bytes_of(options), kQueueBytes);
}

std::string host_batch(const LabOptions& options, int number) {
  std::string batch = fmt::format("link set lo up\naddr add 10.77.0.{}/24 dev eth0\n", number);
  if (options.ipv6) batch += fmt::format("addr add fd77::{:x}/64 dev eth0 nodad\n", number);
  return batch + "link set eth0 up\n" + routes_batch(options, number) +
         neighbours_batch(options, number);
}

}  // namespace tutti::lab
