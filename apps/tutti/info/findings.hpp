// Finds the settings of this host that hinder Tutti, each with a command that fixes it.
#pragma once

#include <string>
#include <vector>

#include "info/host_facts.hpp"

namespace tutti::app {

enum class Severity {
  note,     ///< possible problem; Tutti works despite it
  slow,     ///< problem that makes Tutti slower
  failing,  ///< problem that prevents a feature or a kind of job
};

struct Finding {
  Severity severity = Severity::note;
  std::string text;  ///< description of the problem in one sentence
  /// Command that fixes the problem. It must be run as root, unless a comment in the command says
  /// otherwise.
  std::string command;
};

/// The findings about a host, worst first.
std::vector<Finding> find_faults(const HostFacts& facts);

/// The severity as text: "note", "slow" or "failing".
const char* to_string(Severity severity);

}  // namespace tutti::app
