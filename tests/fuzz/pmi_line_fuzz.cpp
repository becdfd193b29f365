// Fuzzes the parser of a PMI-1 launcher's answers: the parsed words are those of the line, and
// encode to the same line.
#include <algorithm>
#include <string>

#include "fuzz.hpp"
#include "runtime/bootstrap/launchers/pmi.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tutti::fuzz::require;
  using namespace tutti::runtime;  // NOLINT: no other file includes this source file
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto words = parse_pmi_line(line);
  if (!words.ok()) {
    require(!line.starts_with("cmd=") && line.find(" cmd=") == line.npos);
    return 0;
  }
  require(words->contains("cmd"));
  std::string again;
  for (const auto& [key, value] : *words) {
    require(key.find_first_of(" =") == key.npos && value.find(' ') == value.npos);
    require(line.find(key + "=" + value) != line.npos);
    again += key + "=" + value + " ";
  }
  const auto parsed = parse_pmi_line(again);
  require(parsed.ok() && *parsed == *words);
  return 0;
}
