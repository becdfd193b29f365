// What is wrong with a host, and how to mend it.
#pragma once

#include <string>
#include <vector>

#include "info/host_facts.hpp"

namespace tutti::app {

enum class Severity {
  note,     ///< may matter; Tutti works
  slow,     ///< Tutti works, but slower than it could
  failing,  ///< something will not work
};

struct Finding {
  Severity severity = Severity::note;
  std::string text;     ///< one sentence
  std::string command;  ///< that mends it, to be run as root unless it says otherwise
};

/// Worst first.
std::vector<Finding> find_faults(const HostFacts& facts);

/// "note", "slow", "failing".
const char* to_string(Severity severity);

}  // namespace tutti::app
