// The aggregators of a lab: `tutti aggregator` at each of its places at the switch, for the time of
// a run.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "lab/lab.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// Starts them, and ends them when it goes. The lab outlives it. Movable.
class Aggregators {
 public:
  /// Starts as many as the lab has places, and waits until they listen. `program` is `tutti`;
  /// `options` go to each (`--jobs`, ...).
  static Result<Aggregators> start(const Lab& lab, const std::string& program,
                                   const std::vector<std::string>& options = {});

  Aggregators(Aggregators&&) noexcept;
  Aggregators& operator=(Aggregators&&) = delete;
  Aggregators(const Aggregators&) = delete;
  ~Aggregators();

  /// What their jobs need: TUTTI_AGGREGATORS and TUTTI_AGGREGATOR_KEY; nothing where there are
  /// none.
  std::vector<std::string> environment() const;
  const std::vector<pid_t>& processes() const { return processes_; }
  /// Ends them, and returns what they wrote: who came, and the counters of their work.
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
