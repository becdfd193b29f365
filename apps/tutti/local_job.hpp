// The processes of one `tutti run`: started together, watched, ended together.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "line_prefixer.hpp"
#include "run.hpp"
#include "runtime/bootstrap/store/socket.hpp"
#include "tutti/status.hpp"

namespace tutti::app {

/// Needs SIGINT, SIGTERM and SIGCHLD for itself while it lives: they are blocked in the calling
/// thread and read from a descriptor.
class LocalJob {
 public:
  explicit LocalJob(const RunOptions& options);
  ~LocalJob();
  LocalJob(const LocalJob&) = delete;
  LocalJob& operator=(const LocalJob&) = delete;

  /// Starts all ranks; where one cannot be started, ends those that were.
  Status start(const std::string& master_addr, std::uint16_t master_port);
  /// Waits for the end of all; the status that run_command returns.
  int wait();

 private:
  struct Process {
    std::uint32_t rank = 0;
    pid_t pid = 0;
    bool running = true;
  };
  struct Pipe {
    runtime::Socket from;
    int to = 1;
    LinePrefixer lines;
  };

  Status start_rank(std::uint32_t rank, std::vector<std::string> variables);
  Result<runtime::Socket> add_pipe(std::uint32_t rank, int to);
  bool anyone_running() const;
  void poll_once(runtime::Deadline deadline);
  void take_signals();
  void read_pipe(Pipe& pipe);
  void reap();
  void judge(const Process& process, int code, int status);
  void act_on_deadlines();
  void send_to_all(int signal_number) const;
  void say(const std::string& text) const;

  RunOptions options_;
  sigset_t mask_before_{};
  runtime::Socket signals_;
  std::vector<Process> processes_;
  std::vector<std::unique_ptr<Pipe>> pipes_;
  std::optional<int> first_failure_;
  int interrupts_ = 0;
  runtime::Deadline timeout_at_ = runtime::Deadline::max();
  runtime::Deadline terminate_at_ = runtime::Deadline::max();
  runtime::Deadline kill_at_ = runtime::Deadline::max();
};

}  // namespace tutti::app
