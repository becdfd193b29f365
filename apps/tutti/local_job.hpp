// Runs the ranks of one `tutti run`, prints their output and reports failures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/job.hpp"
#include "run.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

class LocalJob : private launch::JobObserver {
 public:
  explicit LocalJob(const RunOptions& options);

  /// Starts all ranks. If one rank cannot be started, the destructor ends the ranks that already
  /// run.
  Status start(const std::string& master_addr, std::uint16_t master_port);
  /// Waits for the end of all ranks and returns the exit status of `tutti run`.
  int wait();

 private:
  Status start_rank(std::uint32_t rank, std::vector<std::string> variables);
  void on_output(int rank, bool is_error, std::string_view lines) override;
  void on_first_failure(const launch::FirstFailure& failure) override;
  void on_signal(int number, bool again) override;
  void on_timeout() override;
  void say(const std::string& text) const;

  RunOptions options_;
  bool failed_before_timeout_ = false;
  launch::Job job_;
};

}  // namespace tutti::app
