#include "observe/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tutti::observe {
namespace {

// A logger of our own: the application's default one is not ours to write to.
spdlog::logger& logger() {
  static spdlog::logger ours("tutti", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  return ours;
}

}  // namespace

void complain(std::string_view sentence) { logger().error("{}", sentence); }

void inform(std::string_view sentence) { logger().info("{}", sentence); }

}  // namespace tutti::observe
