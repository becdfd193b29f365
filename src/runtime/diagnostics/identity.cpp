#include "runtime/diagnostics/identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace tutti::runtime {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

const std::string& boot_identity() {
  static const std::string boot = [] {
    std::string text;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
    return text;
  }();
  return boot;
}

std::string namespace_identity(const char* kind) {
  struct stat status {};
  const std::string path = std::string("/proc/self/ns/") + kind;
  return ::stat(path.c_str(), &status) == 0 ? ":" + std::to_string(status.st_ino) : std::string();
}

}  // namespace tutti::runtime
