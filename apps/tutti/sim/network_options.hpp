// Command-line options and output that all commands with a simulated network share.
#pragma once

#include <CLI/App.hpp>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "observe/trace.hpp"
#include "sim/fabric/background.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/simulation/scenario.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

struct NetworkOptions {
  std::string bytes = "64K";
  std::string rate = "56gbit";
  std::string topology;
  std::string topology_file;
  sim::PlacementKind placement = sim::PlacementKind::packed;
  sim::BackgroundSettings background{.load = 0.5};
  std::string trace;

  void add_to(CLI::App& command);
  Result<std::uint64_t> read_bytes() const;
  /// The text of the topology file; empty if the options name no file.
  Result<std::string> read_topology_file() const;
  /// The topology and the placement of ranks that the options name, or the default ones for this
  /// number of ranks.
  Result<simulation::TopologySpec> read_place(std::uint32_t ranks) const;
};

/// The routing methods by their names: "ecmp", "adaptive" and "destination".
const std::map<std::string, sim::Routing>& routing_names();

/// The processor time that this process has used, in seconds.
double processor_seconds();

/// The traffic of each class of links as JSON, {"host_up": {"packets": ...}, ...}. Classes without
/// traffic are left out.
nlohmann::json classes_json(const std::array<sim::TrafficCount, sim::kLinkClasses>& classes);

/// Records a trace and writes it to a file. Without a file name nothing is recorded.
class TraceFile {
 public:
  explicit TraceFile(std::string path) : path_(std::move(path)) {
    if (!path_.empty()) trace_ = std::make_unique<observe::Trace>();
  }
  observe::Trace* get() { return trace_.get(); }
  Status write() const;

 private:
  std::string path_;
  std::unique_ptr<observe::Trace> trace_;
};

}  // namespace tutti::app
