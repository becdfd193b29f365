#include "runtime/communicator/device_choice.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/number.hpp"
#include "device/host/host_device.hpp"
#include "device/ip/ip_device.hpp"
#include "runtime/communicator/option_lookup.hpp"

namespace tutti::runtime {

namespace {

Result<std::shared_ptr<device::Device>> make_ip(const CommunicatorOptions& options,
                                                const PeerOptions& own, bool local_only) {
  const auto traffic = traffic_classes(options);
  if (!traffic) return traffic.status();
  device::ip::IpOptions ip;
  ip.traffic = *traffic;
  ip.interface = options.interface;
  if (ip.interface.empty()) ip.interface = variable_or_empty("TUTTI_INTERFACE");
  ip.family = options.ipv6 ? AF_INET6 : AF_INET;
  ip.local_only = local_only;
  ip.multicast_hops = own.options.multicast_hops;
  ip.multicast = own.multicast == "uc" ? device::ip::Multicast::uc : device::ip::Multicast::ud;
  ip.max_fragment_bytes = options.segment_bytes;
  return std::shared_ptr<device::Device>(std::make_shared<device::ip::IpDevice>(ip));
}

constexpr std::uint32_t kMostDscp = 63;
constexpr std::uint32_t kMostPriority = 15;

std::optional<device::ip::TrafficClass> one_traffic_class(const std::string& text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto dscp = whole_number<std::uint32_t>(text.substr(0, slash));
  const auto priority =
      slash == text.size() ? 0u : whole_number<std::uint32_t>(text.substr(slash + 1));
  if (!dscp || !priority || *dscp > kMostDscp || *priority > kMostPriority) return std::nullopt;
  return device::ip::TrafficClass{*dscp, *priority};
}

/// Text that names two ranks that cannot share memory; empty if all ranks can share it.
std::string apart(const std::vector<PeerOptions>& greetings) {
  for (std::size_t r = 1; r < greetings.size(); ++r) {
    if (greetings[r].memory != greetings[0].memory) {
      return fmt::format("rank 0 ({}) and rank {} ({})", greetings[0].host, r, greetings[r].host);
    }
  }
  return {};
}

bool suits_host(const std::vector<PeerOptions>& greetings) {
  const bool network_wanted =
      std::any_of(greetings.begin(), greetings.end(),
                  [](const PeerOptions& one) { return one.network_wanted; });
  return greetings.size() > 1 && !network_wanted && apart(greetings).empty();
}

}  // namespace

Result<std::string> wanted_device(const CommunicatorOptions& options) {
  std::string source;
  const std::string name =
      asked_for(options.device_name, "the option device_name", "TUTTI_DEVICE", source);
  if (name.empty()) return std::string("auto");
  if (name == "auto" || name == "ip" || name == "host") return name;
  return failure(Code::invalid_argument, "{} is \"{}\": use the device 'auto', 'ip' or 'host'",
                 source, name);
}

Result<std::string> wanted_multicast(const CommunicatorOptions& options) {
  std::string source;
  const std::string name =
      asked_for(options.multicast, "the option multicast", "TUTTI_MULTICAST", source);
  if (name.empty()) return std::string("ud");
  if (name == "ud" || name == "uc" || name == "none") return name;
  return failure(Code::invalid_argument, "{} is \"{}\": use the multicast 'ud' or 'uc', or 'none'",
                 source, name);
}

Result<std::uint32_t> multicast_hops(const CommunicatorOptions& options) {
  constexpr std::uint32_t kMostHops = 255;
  std::string source;
  const std::string given =
      options.multicast_hops == 0 ? std::string() : std::to_string(options.multicast_hops);
  const std::string text =
      asked_for(given, "the option multicast_hops", "TUTTI_MULTICAST_HOPS", source);
  if (text.empty()) return 1u;
  const auto hops = whole_number<std::uint32_t>(text);
  if (hops && *hops > 0 && *hops <= kMostHops) return *hops;
  return failure(Code::invalid_argument, "{} is \"{}\": use a number from 1 to {}", source, text,
                 kMostHops);
}

Result<std::uint32_t> max_connections(const CommunicatorOptions& options) {
  std::string source;
  const std::string given =
      options.max_connections == 0 ? std::string() : std::to_string(options.max_connections);
  const std::string text =
      asked_for(given, "the option max_connections", "TUTTI_MAX_CONNECTIONS", source);
  if (text.empty()) return 0u;
  const auto most = whole_number<std::uint32_t>(text);
  if (most && *most != 1) return *most;
  return failure(Code::invalid_argument,
                 "{} is \"{}\": use 2 or more connections, or 0 for no limit", source, text);
}

Result<device::ip::TrafficClasses> traffic_classes(const CommunicatorOptions& options) {
  std::string source;
  const std::string text =
      asked_for(options.traffic_class, "the option traffic_class", "TUTTI_TRAFFIC_CLASS", source);
  if (text.empty()) return device::ip::TrafficClasses();
  std::vector<std::optional<device::ip::TrafficClass>> classes;
  for (std::size_t from = 0, comma = 0; comma != std::string::npos; from = comma + 1) {
    comma = text.find(',', from);
    classes.push_back(one_traffic_class(text.substr(from, comma - from)));
  }
  const bool right =
      std::all_of(classes.begin(), classes.end(), [](const auto& one) { return one; });
  if (right && classes.size() == 1) return device::ip::TrafficClasses::equal(*classes[0]);
  if (right && classes.size() == 3)
    return device::ip::TrafficClasses{{*classes[0], *classes[1], *classes[2]}};
  return failure(Code::invalid_argument,
                 "{} is \"{}\": use one traffic class for all calls, such as 46 or 46/5, or three "
                 "for calls of low, normal and high priority, such as 8,0,46 (each is a DSCP from "
                 "0 to {}, optionally with a slash and a socket priority from 0 to {})",
                 source, text, kMostDscp, kMostPriority);
}

Result<bool> requires_multicast(const CommunicatorOptions& options) {
  const auto wanted = flag_of_environment("TUTTI_REQUIRE_MULTICAST");
  if (!wanted) return wanted.status();
  return options.require_multicast || *wanted;
}

bool wants_network(const CommunicatorOptions& options, std::uint32_t receive_workers,
                   const std::string& multicast) {
  return !options.interface.empty() || options.ipv6 || receive_workers > 0 || multicast == "uc" ||
         !variable_or_empty("TUTTI_INTERFACE").empty();
}

std::vector<Rank> ranks_sharing(const std::vector<PeerOptions>& greetings, Rank me,
                                std::string PeerOptions::*identity) {
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < greetings.size(); ++r) {
    if (greetings[r].*identity == greetings[index(me)].*identity) ranks.push_back(rank_of(r));
  }
  return ranks;
}

Result<std::shared_ptr<device::Device>> choose_device(const CommunicatorOptions& options,
                                                      const std::vector<PeerOptions>& greetings,
                                                      Rank me, std::vector<Rank>& local_ranks) {
  const std::string& wanted = greetings[index(me)].device;
  const std::string strangers = apart(greetings);
  local_ranks = ranks_sharing(greetings, me, &PeerOptions::network);
  const bool one_network = local_ranks.size() == greetings.size();
  if (options.device) return options.device;
  const std::string& multicast = greetings[index(me)].multicast;
  if (wanted == "host" && multicast == "uc") {
    return failure(Code::unsupported,
                   "the device 'host' has no UC multicast: use the device 'auto' or 'ip', or "
                   "TUTTI_MULTICAST=ud");
  }
  if (wanted == "host" && !strangers.empty()) {
    return failure(Code::unsupported,
                   "the device 'host' needs all ranks on one host and of one user, but {} cannot "
                   "share memory: set TUTTI_DEVICE to 'auto' or 'ip'",
                   strangers);
  }
  if (wanted == "host" || (wanted == "auto" && one_network && suits_host(greetings))) {
    local_ranks = ranks_sharing(greetings, me, &PeerOptions::memory);
    return std::shared_ptr<device::Device>(std::make_shared<device::host::HostDevice>());
  }
  return make_ip(options, greetings[index(me)], one_network);
}

}  // namespace tutti::runtime
