#include "observe/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tutti::observe {
namespace {

// Tutti has its own logger, because spdlog's default logger belongs to the application. Tutti's
// logger is never destroyed, because threads and static objects log while the process exits.
spdlog::logger& logger() {
  static spdlog::logger* const ours =
      new spdlog::logger("tutti", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  return *ours;
}

}  // namespace

void complain(std::string_view sentence) { logger().error("{}", sentence); }

void warn(std::string_view sentence) { logger().warn("{}", sentence); }

void inform(std::string_view sentence) { logger().info("{}", sentence); }

}  // namespace tutti::observe
