#include "lab/runner.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>

#include "base/error.hpp"
#include "lab/descriptor.hpp"

namespace tutti::lab {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// From the request to end until a rank is killed.
constexpr milliseconds kPatience{3000};
/// For output that is still in the pipes when all ranks have ended.
constexpr milliseconds kDrain{1000};
constexpr std::size_t kLongestLine = 64 * 1024;
constexpr int kTimedOutStatus = 124;

/// One of a rank's two output streams, cut into lines.
struct Stream {
  Descriptor source;
  bool is_error = false;
  std::string pending;
};

struct RankProcess {
  pid_t pid = -1;    ///< -1 when reaped
  Descriptor watch;  ///< readable when the process has ended
  std::array<Stream, 2> streams;
};

/// Blocks the signals that end a run, and reads them from a descriptor, while it lives.
class SignalWatch {
 public:
  explicit SignalWatch(bool active) : active_(active) {
    if (!active_) return;
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
    descriptor_.reset(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch() {
    if (active_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  int descriptor() const { return descriptor_.get(); }
  /// The next signal, 0 if none is waiting.
  int next() {
    signalfd_siginfo info;
    const ssize_t count = read(descriptor_.get(), &info, sizeof info);
    return count == static_cast<ssize_t>(sizeof info) ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  bool active_;
  sigset_t before_{};
  Descriptor descriptor_;
};

void print_line(int rank, bool is_error, std::string_view line) {
  std::FILE* file = is_error ? stderr : stdout;
  const std::string text = fmt::format("[{}] {}\n", rank, line);
  std::fwrite(text.data(), 1, text.size(), file);
}

class Run {
 public:
  Run(const Lab& lab, const RunOptions& options)
      : lab_(lab), options_(options), signals_(options.handle_signals) {
    ranks_.resize(static_cast<std::size_t>(lab.hosts()) *
                  static_cast<std::size_t>(options.ranks_per_host));
    report_.exit_statuses.assign(ranks_.size(), -1);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    signal_groups(SIGKILL);
    for (RankProcess& rank : ranks_) {
      if (rank.pid > 0) (void)wait_for(rank.pid);
    }
  }

  Result<RunReport> execute();

 private:
  Status start(int rank);
  Result<int> open_stream(int rank, Stream& stream, Descriptor& write_end);
  std::vector<std::string> environment(int rank) const;
  void wait_for_ranks();
  void poll_once();
  void reap(int rank);
  void handle_signal();
  void handle_deadlines();
  void ask_to_end(int signal);
  void signal_groups(int signal) const;
  void pull(int rank, Stream& stream);
  void emit_lines(int rank, Stream& stream);
  void emit(int rank, bool is_error, std::string_view line) const;
  void drain();
  bool streams_open() const;
  std::optional<milliseconds> time_left() const;

  const Lab& lab_;
  const RunOptions& options_;
  SignalWatch signals_;
  std::vector<RankProcess> ranks_;
  RunReport report_;
  int running_ = 0;
  std::optional<Clock::time_point> end_at_;   ///< when to ask the ranks to end
  std::optional<Clock::time_point> kill_at_;  ///< when to kill them
  std::optional<Clock::time_point> timeout_at_;
};

std::vector<std::string> Run::environment(int rank) const {
  std::vector<std::string> ours{
      fmt::format("RANK={}", rank),
      fmt::format("WORLD_SIZE={}", ranks_.size()),
      fmt::format("LOCAL_RANK={}", rank % options_.ranks_per_host),
      fmt::format("LOCAL_WORLD_SIZE={}", options_.ranks_per_host),
      fmt::format("MASTER_ADDR={}", lab_.address(0)),
      fmt::format("MASTER_PORT={}", options_.master_port),
      "TUTTI_INTERFACE=eth0",
  };
  ours.insert(ours.end(), options_.environment.begin(), options_.environment.end());
  const auto is_ours = [&ours](std::string_view entry) {
    const std::string_view name = entry.substr(0, entry.find('=') + 1);
    return std::any_of(ours.begin(), ours.end(),
                       [name](const std::string& own) { return own.starts_with(name); });
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_ours(*entry)) ours.emplace_back(*entry);
  }
  return ours;
}

Result<int> Run::open_stream(int rank, Stream& stream, Descriptor& write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return system_failure(errno, "a pipe for the output of rank {} cannot be made", rank);
  }
  stream.source.reset(ends[0]);
  write_end.reset(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return ends[1];
}

Status Run::start(int rank) {
  RankProcess& process = ranks_[static_cast<std::size_t>(rank)];
  std::array<Descriptor, 2> write_ends;
  SpawnRequest request;
  request.arguments = options_.arguments;
  request.environment = environment(rank);
  request.own_group = true;
  request.die_with_launcher = true;
  process.streams[1].is_error = true;
  Result<int> output = open_stream(rank, process.streams[0], write_ends[0]);
  if (!output) return output.status();
  Result<int> error = open_stream(rank, process.streams[1], write_ends[1]);
  if (!error) return error.status();
  request.output = *output;
  request.error = *error;
  Result<pid_t> pid = lab_.spawn_on(rank / options_.ranks_per_host, std::move(request));
  if (!pid) {
    return failure(pid.status().code(), "rank {} cannot be started: {}", rank,
                   pid.status().message());
  }
  process.pid = *pid;
  ++running_;
  process.watch.reset(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  if (!process.watch.valid()) return system_failure(errno, "rank {} cannot be watched", rank);
  return {};
}

void Run::signal_groups(int signal) const {
  // Groups, so that what a rank has started ends with it.
  for (const RankProcess& rank : ranks_) {
    if (rank.pid > 0) kill(-rank.pid, signal);
  }
}

void Run::ask_to_end(int signal) {
  signal_groups(signal);
  end_at_.reset();
  timeout_at_.reset();
  if (!kill_at_) kill_at_ = Clock::now() + kPatience;
}

void Run::handle_signal() {
  const int signal = signals_.next();
  if (signal == 0) return;
  if (report_.interrupted_by != 0) {
    signal_groups(SIGKILL);  // asked twice: no more patience
    return;
  }
  report_.interrupted_by = signal;
  ask_to_end(signal);
}

void Run::handle_deadlines() {
  const auto now = Clock::now();
  if (timeout_at_ && now >= *timeout_at_) {
    report_.timed_out = true;
    ask_to_end(SIGTERM);
  }
  if (end_at_ && now >= *end_at_) ask_to_end(SIGTERM);
  if (kill_at_ && now >= *kill_at_) {
    signal_groups(SIGKILL);
    kill_at_ = now + kPatience;
  }
}

void Run::reap(int rank) {
  RankProcess& process = ranks_[static_cast<std::size_t>(rank)];
  // What it left running would keep its output open. Until it is awaited, its number stays its own.
  kill(-process.pid, SIGKILL);
  const Result<int> status = wait_for(process.pid);
  process.pid = -1;
  process.watch.reset();
  --running_;
  const int code = status ? *status : 125;
  report_.exit_statuses[static_cast<std::size_t>(rank)] = code;
  if (code == 0 || report_.first_failed >= 0) return;
  report_.first_failed = rank;
  report_.exit_status = code;
  if (!kill_at_) end_at_ = Clock::now() + milliseconds(options_.grace_ms);
}

void Run::emit(int rank, bool is_error, std::string_view line) const {
  if (options_.on_line) {
    options_.on_line(rank, is_error, line);
  } else {
    print_line(rank, is_error, line);
  }
}

void Run::emit_lines(int rank, Stream& stream) {
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = stream.pending.find('\n', begin)) != std::string::npos;) {
    emit(rank, stream.is_error, std::string_view(stream.pending).substr(begin, end - begin));
    begin = end + 1;
  }
  stream.pending.erase(0, begin);
  const bool last = !stream.source.valid() && !stream.pending.empty();
  if (!last && stream.pending.size() < kLongestLine) return;
  emit(rank, stream.is_error, stream.pending);
  stream.pending.clear();
}

void Run::pull(int rank, Stream& stream) {
  std::array<char, 16384> buffer;
  const ssize_t count = read(stream.source.get(), buffer.data(), buffer.size());
  if (count > 0) {
    stream.pending.append(buffer.data(), static_cast<std::size_t>(count));
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    stream.source.reset();
  }
  emit_lines(rank, stream);
}

std::optional<milliseconds> Run::time_left() const {
  std::optional<Clock::time_point> next;
  for (const auto& deadline : {end_at_, kill_at_, timeout_at_}) {
    if (deadline && (!next || *deadline < *next)) next = deadline;
  }
  if (!next) return std::nullopt;
  const auto left = std::chrono::ceil<milliseconds>(*next - Clock::now());
  return std::max(left, milliseconds(0));
}

void Run::poll_once() {
  // Per rank: its end and its two streams; last, the signals. Closed ones are -1, which poll skips.
  std::vector<pollfd> polled;
  for (const RankProcess& rank : ranks_) {
    polled.push_back({rank.watch.get(), POLLIN, 0});
    for (const Stream& stream : rank.streams) polled.push_back({stream.source.get(), POLLIN, 0});
  }
  polled.push_back({signals_.descriptor(), POLLIN, 0});
  const auto left = time_left();
  std::fflush(stdout);
  if (poll(polled.data(), polled.size(), left ? static_cast<int>(left->count()) : -1) <= 0) return;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const int rank = static_cast<int>(i);
    for (std::size_t stream = 0; stream < 2; ++stream) {
      if (polled[3 * i + 1 + stream].revents != 0) pull(rank, ranks_[i].streams[stream]);
    }
    if (polled[3 * i].revents != 0) reap(rank);
  }
  if (polled.back().revents != 0) handle_signal();
}

bool Run::streams_open() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) {
    return rank.streams[0].source.valid() || rank.streams[1].source.valid();
  });
}

void Run::drain() {
  end_at_.reset();
  timeout_at_.reset();
  kill_at_ = Clock::now() + kDrain;
  while (streams_open() && Clock::now() < *kill_at_) poll_once();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    for (Stream& stream : ranks_[i].streams) {
      stream.source.reset();
      emit_lines(static_cast<int>(i), stream);
    }
  }
  std::fflush(stdout);
}

void Run::wait_for_ranks() {
  while (running_ > 0) {
    poll_once();
    handle_deadlines();
  }
}

Result<RunReport> Run::execute() {
  Result<std::vector<PortBytes>> before = lab_.port_bytes();
  if (!before) return before.status();
  const auto begin = Clock::now();
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    if (Status status = start(rank); !status) return status;
  }
  if (options_.timeout_ms > 0) timeout_at_ = begin + milliseconds(options_.timeout_ms);
  wait_for_ranks();
  report_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  drain();

  if (report_.timed_out) report_.exit_status = kTimedOutStatus;
  if (report_.interrupted_by != 0) report_.exit_status = 128 + report_.interrupted_by;
  Result<std::vector<PortBytes>> after = lab_.port_bytes();
  if (!after) return after.status();
  for (std::size_t i = 0; i < after->size(); ++i) {
    report_.traffic.push_back((*after)[i].since((*before)[i]));
  }
  return std::move(report_);
}

}  // namespace

Result<RunReport> run_ranks(const Lab& lab, const RunOptions& options) {
  if (options.arguments.empty()) return failure(Code::invalid_argument, "no program is given");
  Run run(lab, options);
  return run.execute();
}

}  // namespace tutti::lab
