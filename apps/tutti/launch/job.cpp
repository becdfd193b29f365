#include "launch/job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/error.hpp"

namespace tutti::launch {

namespace {

constexpr auto kNever = std::chrono::steady_clock::time_point::max();
/// Time in which output is still read from the pipes after the last process has ended.
constexpr auto kDrainTime = std::chrono::seconds(1);

/// Makes a pipe for one output stream of a new process and returns the end to which the process
/// writes.
Result<device::Descriptor> make_pipe(device::Descriptor& source) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_failure(errno, "cannot make a pipe");
  source = device::Descriptor(ends[0]);
  // Only the reading end is non-blocking, because programs expect that their standard output
  // blocks.
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return device::Descriptor(ends[1]);
}

int milliseconds_until(std::chrono::steady_clock::time_point deadline) {
  if (deadline == kNever) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX));
}

}  // namespace

Job::Job(JobPolicy policy, JobObserver& observer)
    : policy_(std::move(policy)), observer_(observer) {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  for (const int number : policy_.signals) sigaddset(&watched, number);
  pthread_sigmask(SIG_BLOCK, &watched, &mask_before_);
  signals_ = device::Descriptor(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
}

Job::~Job() {
  signal_groups(SIGKILL);
  for (const Process& process : processes_) {
    if (process.running) (void)wait_for(process.pid);
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

Status Job::start(int rank, SpawnRequest request, const std::optional<std::string>& line_prefix) {
  if (!signals_.valid()) return system_failure(errno, "cannot watch for signals");
  Process process;
  process.rank = rank;
  std::array<device::Descriptor, 2> write_ends;
  if (line_prefix) {
    for (std::size_t i = 0; i < 2; ++i) {
      process.streams[i].lines = LinePrefixer(*line_prefix);
      Result<device::Descriptor> made = make_pipe(process.streams[i].source);
      if (!made) return made.status();
      write_ends[i] = std::move(*made);
    }
    request.output = write_ends[0].get();
    request.error = write_ends[1].get();
  }
  request.own_group = true;
  request.die_with_launcher = true;
  const Result<pid_t> pid = spawn(request);
  if (!pid) return pid.status();
  process.pid = *pid;
  processes_.push_back(std::move(process));
  return {};
}

void Job::wait() {
  if (policy_.timeout.count() > 0) timeout_at_ = started_at_ + policy_.timeout;
  while (any_running()) {
    poll_until(std::min({timeout_at_, terminate_at_, kill_at_}));
    reap();
    act_on_deadlines();
  }
  ended_at_ = Clock::now();
  const auto drained = ended_at_ + kDrainTime;
  while (streams_open() && Clock::now() < drained) poll_until(drained);
  for (Process& process : processes_) {
    for (Stream& stream : process.streams) finish_stream(process, stream);
  }
}

std::vector<int> Job::exit_statuses() const {
  std::vector<int> statuses;
  for (const Process& process : processes_) statuses.push_back(process.exit_status);
  return statuses;
}

bool Job::any_running() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const Process& process) { return process.running; });
}

bool Job::streams_open() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const Process& process) {
    return process.streams[0].source.valid() || process.streams[1].source.valid();
  });
}

void Job::poll_until(Clock::time_point deadline) {
  // Only open streams get an entry, because poll refuses more entries than RLIMIT_NOFILE.
  std::vector<pollfd> polled{{signals_.get(), POLLIN, 0}};
  std::vector<std::pair<Process*, Stream*>> sources;
  for (Process& process : processes_) {
    for (Stream& stream : process.streams) {
      if (!stream.source.valid()) continue;
      polled.push_back({stream.source.get(), POLLIN, 0});
      sources.emplace_back(&process, &stream);
    }
  }
  if (poll(polled.data(), polled.size(), milliseconds_until(deadline)) <= 0) return;
  if (polled[0].revents != 0) take_signals();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (polled[i + 1].revents != 0) read_stream(*sources[i].first, *sources[i].second);
  }
}

void Job::take_signals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    const bool again = interrupted_by_ != 0;
    observer_.on_signal(number, again);
    signal_groups(again ? SIGKILL : number);
    if (again) continue;
    interrupted_by_ = number;
    if (policy_.signal_ends) {
      terminate_at_ = timeout_at_ = kNever;
      kill_at_ = std::min(kill_at_, Clock::now() + policy_.kill_grace);
    } else {
      terminate_at_ = std::min(terminate_at_, Clock::now() + policy_.grace);
    }
  }
}

void Job::read_stream(const Process& process, Stream& stream) {
  std::array<char, 65536> buffer;
  const ssize_t got = read(stream.source.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return finish_stream(process, stream);
  output(process, stream, stream.lines.append({buffer.data(), static_cast<std::size_t>(got)}));
}

void Job::finish_stream(const Process& process, Stream& stream) {
  output(process, stream, stream.lines.finish());
  stream.source = {};
}

void Job::output(const Process& process, const Stream& stream, const std::string& lines) {
  if (lines.empty()) return;
  observer_.on_output(process.rank, &stream == &process.streams[1], lines);
}

void Job::reap() {
  for (Process& process : processes_) {
    siginfo_t info{};
    const auto id = static_cast<id_t>(process.pid);
    if (!process.running || waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0) continue;
    if (info.si_pid == 0) continue;
    // Processes that the rank left behind would keep the output pipe open, so the rank's process
    // group is killed. No other process group can get the same id before wait_for() reaps the rank.
    kill(-process.pid, SIGKILL);
    const Result<int> status = wait_for(process.pid);
    process.exit_status = status ? *status : 125;
    process.running = false;
    judge(process, info.si_code != CLD_EXITED);
  }
}

void Job::judge(const Process& process, bool by_signal) {
  if (process.exit_status == 0 || first_failure_) return;
  const bool ending = terminate_at_ != kNever || kill_at_ != kNever;
  first_failure_ = FirstFailure{process.rank, process.pid, process.exit_status, by_signal,
                                any_running() && !ending};
  observer_.on_first_failure(*first_failure_);
  if (kill_at_ == kNever) terminate_at_ = std::min(terminate_at_, Clock::now() + policy_.grace);
}

void Job::act_on_deadlines() {
  if (!any_running()) return;
  const auto now = Clock::now();
  if (now >= timeout_at_) {
    timed_out_ = true;
    observer_.on_timeout();
    timeout_at_ = kNever;
    terminate_at_ = now;
  }
  if (now >= terminate_at_ && kill_at_ == kNever) {
    signal_groups(SIGTERM);
    kill_at_ = now + policy_.kill_grace;
  }
  if (kill_at_ != kNever) terminate_at_ = kNever;
  if (now < kill_at_) return;
  signal_groups(SIGKILL);
  // SIGKILL is sent only once, although the kernel may take a while to end a process.
  kill_at_ = now + std::chrono::hours(24);
}

void Job::signal_groups(int number) const {
  for (const Process& process : processes_) {
    if (!process.running) continue;
    kill(-process.pid, number);
    // A stopped process acts on a signal only after SIGCONT.
    if (number != SIGKILL) kill(-process.pid, SIGCONT);
  }
}

}  // namespace tutti::launch
