// The aggregators of a lab: one `tutti aggregator` runs at each aggregator place for the time of a
// run.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "lab/lab.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// The running aggregators, which the destructor ends. The lab must outlive this object. Movable.
class Aggregators {
 public:
  /// Starts one aggregator at each aggregator place of the lab and waits until all listen.
  /// `program` is the path of `tutti`; `options` such as `--jobs` are passed to each aggregator.
  static Result<Aggregators> start(const Lab& lab, const std::string& program,
                                   const std::vector<std::string>& options = {});

  Aggregators(Aggregators&&) noexcept;
  Aggregators& operator=(Aggregators&&) = delete;
  Aggregators(const Aggregators&) = delete;
  ~Aggregators();

  /// The environment variables that a job needs, TUTTI_AGGREGATORS and TUTTI_AGGREGATOR_KEY; empty
  /// if there are no aggregators.
  std::vector<std::string> environment() const;
  const std::vector<pid_t>& processes() const { return processes_; }
  /// Ends the aggregators and returns their output, which names the jobs served and the counters.
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
