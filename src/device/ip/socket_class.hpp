// The traffic class of a socket, which follows the priority of the data that it sends.
#pragma once

#include <array>
#include <cstddef>

#include "device/ip/socket.hpp"
#include "tutti/priority.hpp"
#include "tutti/status.hpp"

namespace tutti::device::ip {

/// The traffic class for each priority of data.
struct TrafficClasses {
  std::array<TrafficClass, 3> ascending{};

  static TrafficClasses equal(const TrafficClass& one) { return {{one, one, one}}; }
  const TrafficClass& of(Priority priority) const {
    return ascending[static_cast<std::size_t>(static_cast<int>(priority) + 1)];
  }
  friend bool operator==(const TrafficClasses&, const TrafficClasses&) = default;
};

class SocketClass {
 public:
  /// The socket begins with the traffic class of normal priority. Fails if the kernel refuses one
  /// of the classes.
  Status open(int fd, int family, const TrafficClasses& classes) {
    fd_ = fd;
    family_ = family;
    classes_ = classes;
    if (classes == TrafficClasses()) return {};
    for (const Priority priority : {Priority::low, Priority::high, Priority::normal}) {
      used_ = classes.of(priority);
      if (Status status = set_traffic_class(fd, family, used_); !status) return status;
    }
    return {};
  }
  /// Gives the traffic class of `priority` to all datagrams that are sent from now on.
  void use(Priority priority) {
    if (classes_.of(priority) == used_) return;
    used_ = classes_.of(priority);
    (void)set_traffic_class(fd_, family_, used_);
  }

 private:
  int fd_ = -1;
  int family_ = 0;
  TrafficClasses classes_;
  TrafficClass used_;
};

}  // namespace tutti::device::ip
