// Runs the aggregators of a lab: one process `tutti aggregator` in each aggregator namespace, for
// the duration of a job.
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
  /// Starts one aggregator in each aggregator namespace of the lab and waits until all accept
  /// connections. `program` is the path of `tutti`, and `options` are further options of `tutti
  /// aggregator` such as `--jobs`.
  static Result<Aggregators> start(const Lab& lab, const std::string& program,
                                   const std::vector<std::string>& options = {});

  Aggregators(Aggregators&&) noexcept;
  Aggregators& operator=(Aggregators&&) = delete;
  Aggregators(const Aggregators&) = delete;
  ~Aggregators();

  /// The environment variables by which a job uses the aggregators: TUTTI_AGGREGATORS and
  /// TUTTI_AGGREGATOR_KEY. Empty if there are no aggregators.
  std::vector<std::string> environment() const;
  /// Ends the aggregators and returns their output, which lists the jobs that they served and their
  /// counters.
  std::string end();

 private:
  Aggregators();
  Status start_one(const Lab& lab, const std::string& program, int aggregator,
                   const std::vector<std::string>& options);

  class Reader;
  struct Running {
    pid_t process = 0;  ///< 0 until the process has been started
    std::unique_ptr<Reader> reader;
  };

  std::string key_;
  std::vector<std::string> addresses_;
  std::vector<Running> running_;
};

}  // namespace tutti::lab
