// Lists the problems of a host, each with a command that fixes it.
#pragma once

#include <string>
#include <vector>

#include "info/host_facts.hpp"

namespace tutti::app {

enum class Severity {
  note,     ///< possible problem that does not keep Tutti from working
  slow,     ///< problem with which Tutti works, but slower than possible
  failing,  ///< problem that keeps a feature or a kind of job from working
};

struct Finding {
  Severity severity = Severity::note;
  std::string text;  ///< description of the problem in one sentence
  /// Command that fixes the problem, to be run as root unless it says otherwise.
  std::string command;
};

/// The findings about a host, worst first.
std::vector<Finding> find_faults(const HostFacts& facts);

/// The severity as text: "note", "slow" or "failing".
const char* to_string(Severity severity);

}  // namespace tutti::app
