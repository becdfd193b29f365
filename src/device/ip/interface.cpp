#include "device/ip/interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/error.hpp"

namespace tutti::device::ip {

namespace {

std::uint32_t mtu_of(int fd, const std::string& name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  return ::ioctl(fd, SIOCGIFMTU, &request) == 0 ? static_cast<std::uint32_t>(request.ifr_mtu)
                                                : 1500;
}

std::uint64_t speed_of(const std::string& name) {
  std::ifstream file("/sys/class/net/" + name + "/speed");
  std::int64_t megabits = 0;
  return file >> megabits && megabits > 0 ? static_cast<std::uint64_t>(megabits) : 0;
}

std::string host_text(const SocketAddress& address) {
  const std::string text = address.to_string();
  if (address.family() == AF_INET6) return text.substr(1, text.find(']') - 1);
  return text.substr(0, text.find(':'));
}

}  // namespace

Result<std::vector<Interface>> list_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return system_failure(errno, "listing the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  auto socket = open_udp(AF_INET);
  if (!socket) return socket.status();
  std::vector<Interface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Interface one;
    one.name = entry->ifa_name;
    one.index = ::if_nametoindex(entry->ifa_name);
    one.mtu_bytes = mtu_of(socket->get(), one.name);
    one.speed_mbit = speed_of(one.name);
    one.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    one.multicast = (entry->ifa_flags & IFF_MULTICAST) != 0;
    one.address = SocketAddress::from(entry->ifa_addr);
    found.push_back(std::move(one));
  }
  return found;
}

Result<Interface> choose_interface(const std::string& wanted, bool local_only, int family) {
  auto all = list_interfaces();
  if (!all) return all.status();
  std::string names;
  for (const Interface& one : *all) {
    if (one.address.family() != family) continue;
    names += (names.empty() ? "" : ", ") + one.name + " (" + host_text(one.address) + ")";
    if (!wanted.empty()) {
      if (one.name == wanted || host_text(one.address) == wanted) return one;
      continue;
    }
    if (local_only ? one.loopback : (!one.loopback && one.multicast)) return one;
  }
  const char* version = family == AF_INET6 ? "IPv6" : "IPv4";
  if (!wanted.empty()) {
    return failure(Code::invalid_argument, "no interface \"{}\" is up with an {} address: {}",
                   wanted, version, names.empty() ? "bring one up" : "use one of " + names);
  }
  return failure(Code::unsupported,
                 "no {} interface with an {} address is up: bring one up, or name one with "
                 "TUTTI_INTERFACE; available: {}",
                 local_only ? "loopback" : "multicast", version, names.empty() ? "none" : names);
}

}  // namespace tutti::device::ip
