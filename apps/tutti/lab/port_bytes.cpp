#include "lab/port_bytes.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.hpp"
#include "launch/process.hpp"

namespace tutti::lab {

namespace {

Result<nlohmann::json> parse_json(const std::string& text, const char* program) {
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  if (parsed.is_discarded()) {
    return failure(Code::system, "the output of '{}' is not JSON: update iproute2", program);
  }
  return parsed;
}

/// A nested unsigned number in the JSON output of a tool; 0 if it is absent.
std::uint64_t number_at(const nlohmann::json& json, const char* pointer) {
  const nlohmann::json::json_pointer path(pointer);
  if (!json.contains(path) || !json.at(path).is_number_unsigned()) return 0;
  return json.at(path).get<std::uint64_t>();
}

/// The host to which a switch's port such as "p3" leads; -1 for other interfaces.
int host_of_port(const nlohmann::json& device, const char* key) {
  const std::string name = device.value(key, "");
  if (name.size() < 2 || name[0] != 'p') return -1;
  if (name.find_first_not_of("0123456789", 1) != std::string::npos) return -1;
  return std::stoi(name.substr(1));
}

}  // namespace

PortBytes PortBytes::since(const PortBytes& earlier) const {
  return {.host = host,
          .tx_bytes = tx_bytes - earlier.tx_bytes,
          .tx_packets = tx_packets - earlier.tx_packets,
          .rx_bytes = rx_bytes - earlier.rx_bytes,
          .rx_packets = rx_packets - earlier.rx_packets,
          .queue_drops = queue_drops - earlier.queue_drops};
}

Result<std::vector<PortBytes>> read_port_bytes(const launch::NetNamespace& at_switch, int hosts,
                                               bool shaped) {
  Result<std::string> links = launch::run_checked(at_switch, {"ip", "-s", "-j", "link", "show"}, {},
                                                  "read the ports' counters");
  if (!links) return links.status();
  Result<nlohmann::json> devices = parse_json(*links, "ip -s -j link show");
  if (!devices) return devices.status();
  std::vector<PortBytes> ports(static_cast<std::size_t>(hosts));
  for (int host = 0; host < hosts; ++host) ports[static_cast<std::size_t>(host)].host = host;
  for (const nlohmann::json& device : *devices) {
    const int host = host_of_port(device, "ifname");
    if (host < 0 || host >= hosts) continue;
    PortBytes& port = ports[static_cast<std::size_t>(host)];
    // The counters are read at the switch's port. The port receives the bytes that the host sends,
    // so receive and send counters change places.
    port.tx_bytes = number_at(device, "/stats64/rx/bytes");
    port.tx_packets = number_at(device, "/stats64/rx/packets");
    port.rx_bytes = number_at(device, "/stats64/tx/bytes");
    port.rx_packets = number_at(device, "/stats64/tx/packets");
  }
  if (!shaped) return ports;

  Result<std::string> queues = launch::run_checked(at_switch, {"tc", "-s", "-j", "qdisc", "show"},
                                                   {}, "read the ports' queues");
  if (!queues) return queues.status();
  devices = parse_json(*queues, "tc -s -j qdisc show");
  if (!devices) return devices.status();
  for (const nlohmann::json& queue : *devices) {
    const int host = host_of_port(queue, "dev");
    if (host < 0 || host >= hosts) continue;
    ports[static_cast<std::size_t>(host)].queue_drops += number_at(queue, "/drops");
  }
  return ports;
}

}  // namespace tutti::lab
