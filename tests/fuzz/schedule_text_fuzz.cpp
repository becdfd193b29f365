// Fuzzes the parser of schedules: the printed text of a parsed schedule parses to an equal
// schedule, and a parsed schedule can be validated, filled, lowered and shown.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "schedule/core_direct/core_direct.hpp"
#include "schedule/shape.hpp"
#include "schedule/text.hpp"
#include "schedule/validate/validate.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace schedule = tutti::schedule;
  const auto read =
      schedule::parse_schedule(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!read) {
    if (read.status().message().empty()) std::abort();
    return 0;
  }
  const auto again = schedule::parse_schedule(schedule::to_text(*read));
  if (!again || !(*again == *read)) std::abort();
  const schedule::Validation validation = schedule::validate(std::span(&*read, 1));
  for (const schedule::Finding& finding : validation.findings) {
    if (finding.text.empty()) std::abort();
  }
  std::vector<schedule::FilledTask> filled(read->tasks().size());
  const tutti::Status status = schedule::fill(*read, schedule::Shape::uniform(24, 8), filled);
  if (!status && status.message().empty()) std::abort();
  if (const auto lowered = schedule::lower_to_core_direct(*read))
    schedule::core_direct_table(std::span(&*lowered, 1), true);
  return 0;
}
