// Looks up an option and, if the option is empty, the environment variable that replaces it.
#pragma once

#include <cstdlib>
#include <string>

namespace tutti::runtime {

/// The text of the option, else of the environment variable, else "". `source` receives the name of
/// the option or variable used, for error texts.
inline std::string asked_for(const std::string& option, const char* option_name,
                             const char* variable, std::string& source) {
  source = option_name;
  const char* text = std::getenv(variable);
  if (!option.empty() || text == nullptr) return option;
  source = variable;
  return text;
}

}  // namespace tutti::runtime
