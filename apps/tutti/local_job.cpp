#include "local_job.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "child_process.hpp"
#include "runtime/bootstrap/text.hpp"

namespace tutti::app {
namespace {

using runtime::Deadline;
using runtime::deadline_after;
using runtime::Socket;
using runtime::SteadyClock;

/// For output that is still in the pipes after the last rank has ended.
constexpr auto kDrainTime = std::chrono::seconds(1);

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {
      pollfd entry{fd, POLLOUT, 0};
      poll(&entry, 1, -1);
      continue;
    }
    if (written < 0) return;  // nobody reads our output any more
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string in_place(std::string pattern, std::uint32_t rank) {
  for (std::size_t at = pattern.find("{}"); at != pattern.npos; at = pattern.find("{}", at)) {
    pattern.replace(at, 2, std::to_string(rank));
  }
  return pattern;
}

}  // namespace

LocalJob::LocalJob(const RunOptions& options) : options_(options) {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&ours, number);
  pthread_sigmask(SIG_BLOCK, &ours, &mask_before_);
  signals_ = Socket(signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
}

LocalJob::~LocalJob() {
  send_to_all(SIGKILL);
  for (const Process& process : processes_) {
    if (process.running) waitpid(process.pid, nullptr, 0);
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

Status LocalJob::start(const std::string& master_addr, std::uint16_t master_port) {
  if (!signals_.open()) return system_failure(errno, "cannot watch for signals");
  const std::string run = runtime::random_hex(16);
  const bool apart = options_.netns.find("{}") != options_.netns.npos;
  for (std::uint32_t rank = 0; rank < options_.count; ++rank) {
    const Status status = start_rank(
        rank, {fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", options_.count),
               fmt::format("LOCAL_RANK={}", apart ? 0 : rank),
               fmt::format("LOCAL_WORLD_SIZE={}", apart ? 1 : options_.count),
               "MASTER_ADDR=" + master_addr, fmt::format("MASTER_PORT={}", master_port),
               "TUTTI_RUN_ID=" + run});
    if (!status.ok()) return failure(status.code(), "rank {}: {}", rank, status.message());
  }
  if (options_.timeout.count() > 0) timeout_at_ = deadline_after(options_.timeout);
  return {};
}

Status LocalJob::start_rank(std::uint32_t rank, std::vector<std::string> variables) {
  ChildOptions child;
  child.program = options_.program;
  child.variables = std::move(variables);
  child.netns = in_place(options_.netns, rank);
  child.out_fd = options_.out_fd;
  child.err_fd = options_.err_fd;
  child.signal_mask = mask_before_;
  Socket out;
  Socket err;
  if (options_.prefix) {
    auto out_end = add_pipe(rank, options_.out_fd);
    if (!out_end.ok()) return out_end.status();
    auto err_end = add_pipe(rank, options_.err_fd);
    if (!err_end.ok()) return err_end.status();
    out = std::move(*out_end);
    err = std::move(*err_end);
    child.out_fd = out.fd();
    child.err_fd = err.fd();
  }
  const auto pid = start_child(child);
  if (!pid.ok()) return pid.status();
  processes_.push_back({rank, *pid, true});
  return {};
}

Result<Socket> LocalJob::add_pipe(std::uint32_t rank, int to) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return system_failure(errno, "cannot make a pipe");
  Socket read_end(ends[0]);
  Socket write_end(ends[1]);
  // Only our end: a program does not expect its standard output to be non-blocking.
  fcntl(read_end.fd(), F_SETFL, O_NONBLOCK);
  pipes_.push_back(std::make_unique<Pipe>(
      Pipe{std::move(read_end), to, LinePrefixer(fmt::format("[{}] ", rank))}));
  return write_end;
}

int LocalJob::wait() {
  while (anyone_running()) {
    poll_once(std::min({timeout_at_, terminate_at_, kill_at_}));
    reap();
    act_on_deadlines();
  }
  const Deadline drained = deadline_after(kDrainTime);
  while (!pipes_.empty() && SteadyClock::now() < drained) poll_once(drained);
  for (const auto& pipe : pipes_) write_all(pipe->to, pipe->lines.finish());
  return first_failure_.value_or(0);
}

bool LocalJob::anyone_running() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const Process& process) { return process.running; });
}

void LocalJob::poll_once(Deadline deadline) {
  std::vector<pollfd> entries;
  entries.push_back({signals_.fd(), POLLIN, 0});
  for (const auto& pipe : pipes_) entries.push_back({pipe->from.fd(), POLLIN, 0});
  const int timeout_ms = deadline == Deadline::max() ? -1 : runtime::remaining_ms(deadline);
  if (poll(entries.data(), entries.size(), timeout_ms) <= 0) return;
  if (entries[0].revents != 0) take_signals();
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].revents != 0) read_pipe(*pipes_[i - 1]);
  }
  std::erase_if(pipes_, [](const auto& pipe) { return !pipe->from.open(); });
}

void LocalJob::take_signals() {
  signalfd_siginfo info{};
  while (read(signals_.fd(), &info, sizeof info) == sizeof info) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    const bool again = ++interrupts_ > 1;
    say(fmt::format("{}: {}", strsignal(number),
                    again ? "ending all ranks at once" : "passed on to all ranks"));
    send_to_all(again ? SIGKILL : number);
    terminate_at_ = std::min(terminate_at_, deadline_after(options_.grace));
  }
}

void LocalJob::read_pipe(Pipe& pipe) {
  std::array<char, 65536> buffer;
  const ssize_t got = read(pipe.from.fd(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got > 0) {
    write_all(pipe.to, pipe.lines.append({buffer.data(), static_cast<std::size_t>(got)}));
    return;
  }
  write_all(pipe.to, pipe.lines.finish());
  pipe.from = Socket();
}

void LocalJob::reap() {
  for (Process& process : processes_) {
    siginfo_t info{};
    const auto id = static_cast<id_t>(process.pid);
    if (!process.running || waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0) continue;
    if (info.si_pid == 0) continue;
    // What the rank left behind, while its number is still its own.
    kill(-process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
    process.running = false;
    judge(process, info.si_code, info.si_status);
  }
}

void LocalJob::judge(const Process& process, int code, int status) {
  const bool by_signal = code != CLD_EXITED;
  if ((!by_signal && status == 0) || first_failure_) return;
  first_failure_ = by_signal ? 128 + status : status;
  const std::string how =
      by_signal ? fmt::format("was ended by signal {} ({})", status, strsignal(status))
                : fmt::format("exited with status {}", status);
  const std::string others =
      anyone_running() && terminate_at_ == Deadline::max() && kill_at_ == Deadline::max()
          ? fmt::format("; the others have {} to end", runtime::describe_duration(options_.grace))
          : "";
  say(fmt::format("rank {} (process {}) {}{}", process.rank, process.pid, how, others));
  terminate_at_ = std::min(terminate_at_, deadline_after(options_.grace));
}

void LocalJob::act_on_deadlines() {
  const Deadline now = SteadyClock::now();
  if (!anyone_running()) return;
  if (now >= timeout_at_) {
    say(fmt::format("the job took longer than {}: ending it",
                    runtime::describe_duration(options_.timeout)));
    if (!first_failure_) first_failure_ = kExitTimeout;
    timeout_at_ = Deadline::max();
    terminate_at_ = now;
  }
  if (now >= terminate_at_ && kill_at_ == Deadline::max()) {
    send_to_all(SIGTERM);
    kill_at_ = now + options_.grace;
  }
  if (kill_at_ != Deadline::max()) terminate_at_ = Deadline::max();
  if (now < kill_at_) return;
  send_to_all(SIGKILL);
  // SIGKILL needs no second time; a process that the kernel holds is waited for.
  kill_at_ = now + std::chrono::hours(24);
}

void LocalJob::send_to_all(int signal_number) const {
  for (const Process& process : processes_) {
    if (!process.running) continue;
    kill(-process.pid, signal_number);
    // A stopped process takes SIGTERM only when it goes on.
    if (signal_number != SIGKILL) kill(-process.pid, SIGCONT);
  }
}

void LocalJob::say(const std::string& text) const {
  write_all(options_.err_fd, "tutti run: " + text + "\n");
}

}  // namespace tutti::app
