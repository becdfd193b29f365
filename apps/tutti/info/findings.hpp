// Problems of a host, each with a command that fixes it.
#pragma once

#include <string>
#include <vector>

#include "info/host_facts.hpp"

namespace tutti::app {

enum class Severity {
  note,     ///< possible problem; Tutti works
  slow,     ///< Tutti works, but slower than possible
  failing,  ///< a feature or job that does not work
};

struct Finding {
  Severity severity = Severity::note;
  std::string text;     ///< one sentence
  std::string command;  ///< command that fixes it, run as root unless it says otherwise
};

/// The findings, worst first.
std::vector<Finding> find_faults(const HostFacts& facts);

/// "note", "slow", "failing".
const char* to_string(Severity severity);

}  // namespace tutti::app
