#include "bench/interface_bytes.hpp"

#include <fstream>
#include <sstream>

#include "base/error.hpp"

namespace tutti::app {

Result<InterfaceBytes> interface_bytes(const std::string& interface) {
  std::ifstream file("/proc/net/dev");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == line.npos) continue;
    const auto first = line.find_first_not_of(' ');
    if (line.substr(first, colon - first) != interface) continue;
    std::istringstream fields(line.substr(colon + 1));
    InterfaceBytes bytes;
    std::uint64_t skipped = 0;
    fields >> bytes.received;
    for (int i = 0; i < 7; ++i) fields >> skipped;
    fields >> bytes.sent;
    if (fields) return bytes;
  }
  return failure(Code::system,
                 "interface '{}' has no counters in /proc/net/dev: name an interface of this "
                 "network namespace",
                 interface);
}

}  // namespace tutti::app
