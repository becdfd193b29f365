#include "observe/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tutti::observe {

void complain(std::string_view sentence) {
  // A logger of our own: the application's default one is not ours to write to.
  static spdlog::logger logger("tutti", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger.error("{}", sentence);
}

}  // namespace tutti::observe
