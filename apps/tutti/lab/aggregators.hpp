// The aggregators of a lab: one `tutti aggregator` at each aggregator place, for the time of a run.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "lab/lab.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// Starts the aggregators; the destructor ends them. The lab must outlive it. Movable.
class Aggregators {
 public:
  /// Starts one aggregator per place of the lab and waits until they listen. `program` is the path
  /// of `tutti`; each gets `options` (`--jobs`, ...).
  static Result<Aggregators> start(const Lab& lab, const std::string& program,
                                   const std::vector<std::string>& options = {});

  Aggregators(Aggregators&&) noexcept;
  Aggregators& operator=(Aggregators&&) = delete;
  Aggregators(const Aggregators&) = delete;
  ~Aggregators();

  /// The variables that a job needs, TUTTI_AGGREGATORS and TUTTI_AGGREGATOR_KEY; empty without
  /// aggregators.
  std::vector<std::string> environment() const;
  const std::vector<pid_t>& processes() const { return processes_; }
  /// Ends the aggregators and returns their output: the jobs served and the counters of the work.
  std::string end();

 private:
  Aggregators();
  Status start_one(const Lab& lab, const std::string& program, int aggregator,
                   const std::vector<std::string>& options);

  class Reader;

  std::string key_;
  std::vector<std::string> addresses_;
  std::vector<pid_t> processes_;
  std::vector<std::unique_ptr<Reader>> readers_;
};

}  // namespace tutti::lab
