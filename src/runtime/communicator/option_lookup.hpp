// Looks up an option or, if the option is empty, the environment variable that stands for it.
#pragma once

#include <cstdlib>
#include <string>

#include "base/error.hpp"

namespace tutti::runtime {

/// The text of the option or, if the option is empty, of the environment variable; "" if that is
/// not set. For error texts, `source` receives the name of the option or variable from which the
/// text comes.
inline std::string asked_for(const std::string& option, const char* option_name,
                             const char* variable, std::string& source) {
  source = option_name;
  const char* text = std::getenv(variable);
  if (!option.empty() || text == nullptr) return option;
  source = variable;
  return text;
}

/// The text of an environment variable; "" if it is not set.
inline std::string variable_or_empty(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

/// True if an environment variable is 1; false if it is 0, empty or unset. Fails for any other
/// value.
inline Result<bool> flag_of_environment(const char* variable) {
  const std::string text = variable_or_empty(variable);
  if (text.empty() || text == "0") return false;
  if (text == "1") return true;
  return failure(Code::invalid_argument, "{}=\"{}\" is neither 0 nor 1: use 1 for on, or 0 for off",
                 variable, text);
}

}  // namespace tutti::runtime
