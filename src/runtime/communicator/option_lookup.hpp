// Looks up an option and, if it is empty, the environment variable that stands for it.
#pragma once

#include <cstdlib>
#include <string>

namespace tutti::runtime {

/// The option's text, else the variable's, else "". `source` receives the name of the one used, for
/// messages.
inline std::string asked_for(const std::string& option, const char* option_name,
                             const char* variable, std::string& source) {
  source = option_name;
  const char* text = std::getenv(variable);
  if (!option.empty() || text == nullptr) return option;
  source = variable;
  return text;
}

}  // namespace tutti::runtime
