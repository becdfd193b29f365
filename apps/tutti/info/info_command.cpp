#include "info/info_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "exit_status.hpp"
#include "info/findings.hpp"
#include "info/host_facts.hpp"
#include "info/self_test.hpp"
#include "version.hpp"

namespace tutti::app {
namespace {

struct NamedCapability {
  device::Capability capability;
  const char* name;
};

constexpr NamedCapability kCapabilities[] = {
    {device::Capability::multicast_ud, "multicast_ud"},
    {device::Capability::multicast_uc, "multicast_uc"},
    {device::Capability::reliable_send, "reliable_send"},
    {device::Capability::write, "write"},
    {device::Capability::write_immediate, "write_immediate"},
    {device::Capability::read, "read"},
    {device::Capability::masked_atomics, "masked_atomics"},
    {device::Capability::big_endian_atomics, "big_endian_atomics"},
    {device::Capability::shared_connections, "shared_connections"},
    {device::Capability::dynamic_connections, "dynamic_connections"},
    {device::Capability::tag_matching, "tag_matching"},
    {device::Capability::wait_enable, "wait_enable"},
    {device::Capability::lossless, "lossless"}};

std::vector<std::string> capability_names(const device::Capabilities& capabilities) {
  std::vector<std::string> names;
  for (const NamedCapability& one : kCapabilities) {
    if (capabilities.has(one.capability)) names.push_back(one.name);
  }
  return names;
}

/// An interface's address as text. The port, which is 0 and has no meaning, is left out.
std::string address_of(const device::ip::Interface& interface) {
  std::string text = interface.address.to_string();
  text.resize(text.rfind(':'));
  return text;
}

double milliseconds(Nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

const char* yes_no(bool value) { return value ? "yes" : "no"; }

nlohmann::json interfaces_json(const HostFacts& facts) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& one : facts.interfaces) {
    list.push_back({{"name", one.name},
                    {"address", address_of(one)},
                    {"mtu_bytes", one.mtu_bytes},
                    {"speed_mbit", one.speed_mbit},
                    {"loopback", one.loopback},
                    {"multicast", one.multicast},
                    {"chosen", facts.chosen && facts.chosen->name == one.name &&
                                   address_of(*facts.chosen) == address_of(one)}});
  }
  return list;
}

nlohmann::json limits_json(const Limits& limits) {
  return {{"rmem_max_bytes", limits.rmem_max_bytes},
          {"wmem_max_bytes", limits.wmem_max_bytes},
          {"wanted_receive_buffer_bytes", limits.wanted_receive_buffer_bytes},
          {"granted_receive_buffer_bytes", limits.granted_receive_buffer_bytes},
          {"udp_mem_pages", limits.udp_mem_pages},
          {"page_bytes", limits.page_bytes},
          {"open_files_soft", limits.open_files_soft},
          {"open_files_hard", limits.open_files_hard},
          {"igmp_max_memberships", limits.igmp_max_memberships}};
}

nlohmann::json devices_json(const HostFacts& facts) {
  const device::Capabilities& ip = facts.capabilities;
  nlohmann::json device{{"name", "ip"},
                        {"usable", facts.capabilities_error.empty()},
                        {"error", facts.capabilities_error},
                        {"capabilities", capability_names(ip)},
                        {"max_chunk_bytes", ip.max_chunk_bytes},
                        {"max_uc_message_bytes", facts.uc_capabilities.max_chunk_bytes},
                        {"receive_window_bytes", ip.receive_window_bytes},
                        {"max_send_batch", ip.max_send_batch}};
  return nlohmann::json::array({device});
}

nlohmann::json lab_json(const lab::LabSupport& lab) {
  const auto one = [](const Status& status) {
    return nlohmann::json{{"possible", status.ok()}, {"reason", status.message()}};
  };
  return {{"temporary", one(lab.temporary)}, {"persistent", one(lab.persistent)},
          {"link_rates", one(lab.shaping)},  {"loss", one(lab.loss)},
          {"offload", one(lab.offload)},     {"detour", one(lab.detour)}};
}

nlohmann::json to_json(const HostFacts& facts, const std::vector<Finding>& findings,
                       const SelfTest& test) {
  nlohmann::json bridges = nlohmann::json::array();
  for (const Bridge& one : facts.bridges) {
    bridges.push_back({{"name", one.name}, {"snooping", one.snooping}, {"querier", one.querier}});
  }
  nlohmann::json faults = nlohmann::json::array();
  for (const Finding& one : findings) {
    faults.push_back(
        {{"severity", to_string(one.severity)}, {"text", one.text}, {"command", one.command}});
  }
  return {{"schema", "tutti.info/1"},
          {"version", version()},
          {"host", facts.host},
          {"kernel", facts.kernel},
          {"cores", facts.cores},
          {"usable_cores", facts.usable_cores},
          {"devices", devices_json(facts)},
          {"interfaces", interfaces_json(facts)},
          {"multicast_route", facts.multicast_route},
          {"features",
           {{"udp_segment", facts.features.segmentation},
            {"udp_gro", facts.features.receive_offload},
            {"rcvbufforce", facts.features.forced_buffers}}},
          {"limits", limits_json(facts.limits)},
          {"bridges", bridges},
          {"input_policy", to_string(facts.input_policy)},
          {"lab", lab_json(facts.lab)},
          {"findings", faults},
          {"self_test",
           {{"ok", test.status.ok()},
            {"message", test.status.message()},
            {"bytes", test.bytes},
            {"multicast_datagrams", test.datagrams},
            {"create_ms", milliseconds(test.create_time)},
            {"broadcast_ms", milliseconds(test.broadcast_time)}}}};
}

void print_device(const HostFacts& facts) {
  const device::Capabilities& ip = facts.capabilities;
  if (!facts.capabilities_error.empty()) {
    fmt::print("device ip      unusable: {}\n", facts.capabilities_error);
    return;
  }
  std::string names;
  for (const std::string& name : capability_names(ip)) names += " " + name;
  fmt::print("device ip     {}\n", names);
  fmt::print("               chunks of {} bytes, receive window {} bytes, {} chunks a batch\n",
             ip.max_chunk_bytes, ip.receive_window_bytes, ip.max_send_batch);
  fmt::print("               --multicast uc: chunks of up to {} bytes, in several datagrams\n",
             facts.uc_capabilities.max_chunk_bytes);
}

void print_interfaces(const HostFacts& facts) {
  fmt::print("\n{:<16} {:<28} {:>6} {:>12} {:>10}\n", "interface", "address", "MTU", "speed",
             "multicast");
  for (const auto& one : facts.interfaces) {
    const bool chosen = facts.chosen && one.name == facts.chosen->name &&
                        address_of(one) == address_of(*facts.chosen);
    fmt::print("{:<16} {:<28} {:>6} {:>12} {:>10}{}\n", one.name, address_of(one), one.mtu_bytes,
               one.speed_mbit == 0 ? "unknown" : fmt::format("{} Mbit/s", one.speed_mbit),
               one.loopback ? "loopback" : yes_no(one.multicast),
               chosen ? "  <- jobs of several hosts" : "");
  }
}

void print_limits(const HostFacts& facts) {
  const Limits& limits = facts.limits;
  fmt::print("\nUDP_SEGMENT {}, UDP_GRO {}, SO_RCVBUFFORCE {}\n",
             yes_no(facts.features.segmentation), yes_no(facts.features.receive_offload),
             facts.features.forced_buffers ? "permitted" : "not permitted");
  fmt::print("net.core.rmem_max {}, net.core.wmem_max {}\n", limits.rmem_max_bytes,
             limits.wmem_max_bytes);
  fmt::print("receive buffer {} bytes granted (asked for {}, which the kernel doubles)\n",
             limits.granted_receive_buffer_bytes, limits.wanted_receive_buffer_bytes);
  fmt::print("net.ipv4.udp_mem {} {} {} pages of {} bytes\n", limits.udp_mem_pages[0],
             limits.udp_mem_pages[1], limits.udp_mem_pages[2], limits.page_bytes);
  fmt::print("open files {} (at most {}), igmp_max_memberships {}\n", limits.open_files_soft,
             limits.open_files_hard, limits.igmp_max_memberships);
  for (const Bridge& one : facts.bridges) {
    fmt::print("bridge {}: snooping {}, querier {}\n", one.name, one.snooping ? "on" : "off",
               one.querier ? "on" : "off");
  }
  fmt::print("firewall: input policy {} ({})\n", to_string(facts.input_policy),
             facts.input_policy_source);
  fmt::print("lab: {}\n", facts.lab.temporary.ok() ? "possible" : facts.lab.temporary.message());
}

void print_text(const HostFacts& facts, const std::vector<Finding>& findings,
                const SelfTest& test) {
  fmt::print("tutti {} on {}, Linux {}, {} cores ({} usable)\n\n", version(), facts.host,
             facts.kernel, facts.cores, facts.usable_cores);
  print_device(facts);
  print_interfaces(facts);
  print_limits(facts);
  if (findings.empty()) fmt::print("\nNo problems found.\n");
  for (const Finding& one : findings) {
    fmt::print("\n[{}] {}\n    {}\n", to_string(one.severity), one.text, one.command);
  }
  if (!test.status) {
    fmt::print("\nself-test FAILED: {}\n", test.status.to_string());
    return;
  }
  fmt::print(
      "\nself-test passed: {} bytes by multicast on loopback in {} datagram(s), all right "
      "(found each other in {:.1f} ms, broadcast in {:.2f} ms)\n",
      test.bytes, test.datagrams, milliseconds(test.create_time),
      milliseconds(test.broadcast_time));
}

int run(bool json) {
  const HostFacts facts = read_host_facts();
  const std::vector<Finding> findings = find_faults(facts);
  const SelfTest test = run_self_test();
  if (json) {
    fmt::print("{}\n", to_json(facts, findings, test).dump(2));
  } else {
    print_text(facts, findings, test);
  }
  return test.status.ok() ? kExitOk : kExitFailed;
}

}  // namespace

void add_info_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "info", "Show the capabilities and problems of this host and run a self-test");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print the report as one JSON object");
  command->callback([json, &exit_code] { exit_code = run(*json); });
}

}  // namespace tutti::app
