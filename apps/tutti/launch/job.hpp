// Runs the processes of one job: forwards their output and signals, and ends all of them after a
// failure of one.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/posix/descriptor.hpp"
#include "launch/line_prefixer.hpp"
#include "launch/process.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::launch {

/// When and how the running processes of a job are ended.
struct JobPolicy {
  /// Signals that are forwarded to the processes. A second signal kills the processes.
  std::vector<int> signals;
  /// Whether a forwarded signal replaces SIGTERM; SIGKILL then follows the forwarded signal after
  /// `kill_grace`.
  bool signal_ends = false;
  Nanoseconds grace{0};       ///< time from the first failure or forwarded signal to SIGTERM
  Nanoseconds kill_grace{0};  ///< time from SIGTERM to SIGKILL
  Nanoseconds timeout{0};     ///< time limit of the whole job; 0: no limit
};

/// The process that failed first, and how it ended.
struct FirstFailure {
  int rank = 0;
  pid_t process = 0;
  /// Exit status of the process, or 128 + the signal number if a signal ended the process.
  int exit_status = 0;
  bool by_signal = false;  ///< whether a signal ended the process
  /// Whether other ranks still run and may end by themselves within the time `grace`.
  bool grace_for_others = false;
};

/// Receives the events of a job, in the thread that waits for the job.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  /// Called with complete lines of a rank's output, each with the rank's prefix.
  virtual void on_output(int rank, bool is_error, std::string_view lines) = 0;
  virtual void on_first_failure(const FirstFailure&) {}
  /// Called when a signal is forwarded. If `again` is true, it is the second signal, and the
  /// processes are killed.
  virtual void on_signal(int /*number*/, bool /*again*/) {}
  virtual void on_timeout() {}
};

/// Owns the processes of a job; the destructor kills those that still run. While the object exists,
/// SIGCHLD and the signals of the policy are blocked in the thread that created it. The caller must
/// block them in all other threads.
class Job {
 public:
  Job(JobPolicy policy, JobObserver& observer);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Starts the process of a rank in a new process group. With a line prefix its output goes to the
  /// observer, otherwise to the descriptors in `request`.
  Status start(int rank, SpawnRequest request, const std::optional<std::string>& line_prefix);

  /// Waits until every process has ended and its output has been read.
  void wait();

  /// The signal mask that the creating thread had before this object was made.
  const sigset_t& mask_before() const { return mask_before_; }
  /// The exit statuses of the processes, in the order in which they were started. Valid after
  /// wait().
  std::vector<int> exit_statuses() const;
  const std::optional<FirstFailure>& first_failure() const { return first_failure_; }
  bool timed_out() const { return timed_out_; }
  /// Number of the first signal that was forwarded; 0: none.
  int interrupted_by() const { return interrupted_by_; }
  /// The time from the first process's start to the last process's end.
  Nanoseconds duration() const { return ended_at_ - started_at_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Stream {
    device::Descriptor source;
    LinePrefixer lines{""};
  };
  struct Process {
    int rank = 0;
    pid_t pid = 0;
    bool running = true;
    int exit_status = -1;
    std::array<Stream, 2> streams{};  ///< pipes from standard output and standard error
  };

  bool any_running() const;
  bool streams_open() const;
  void poll_until(Clock::time_point deadline);
  void take_signals();
  void read_stream(const Process& process, Stream& stream);
  void finish_stream(const Process& process, Stream& stream);
  void output(const Process& process, const Stream& stream, const std::string& lines);
  void reap();
  void judge(const Process& process, bool by_signal);
  void act_on_deadlines();
  void signal_groups(int number) const;

  JobPolicy policy_;
  JobObserver& observer_;
  sigset_t mask_before_{};
  device::Descriptor signals_;
  std::vector<Process> processes_;
  std::optional<FirstFailure> first_failure_;
  bool timed_out_ = false;
  int interrupted_by_ = 0;
  Clock::time_point started_at_ = Clock::now();
  Clock::time_point ended_at_{};
  Clock::time_point timeout_at_ = Clock::time_point::max();
  Clock::time_point terminate_at_ = Clock::time_point::max();
  Clock::time_point kill_at_ = Clock::time_point::max();
};

}  // namespace tutti::launch
