#include "exit_status.hpp"

#include <algorithm>
#include <cstdio>

namespace tutti::app {

int complain(const std::string& command, const Status& status) {
  std::string text = "tutti " + command + ": " + status.to_string();
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::fprintf(stderr, "%s\n", text.c_str());
  return status.code() == Code::invalid_argument ? kExitUsage : kExitFailed;
}

}  // namespace tutti::app
