#include "launch/process.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <system_error>

#include "base/error.hpp"
#include "device/posix/descriptor.hpp"

namespace tutti::launch {

namespace {

struct Pipe {
  device::Descriptor read;
  device::Descriptor write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_failure(errno, "cannot make a pipe");
  return Pipe{device::Descriptor(ends[0]), device::Descriptor(ends[1])};
}

/// The data that a child sends to its parent if it could not execute the program.
struct ChildFailure {
  Step step = Step::none;
  int error_number = 0;
};

/// The request in a form that the child can use without allocating memory; made before fork.
struct PreparedChild {
  const SpawnRequest* request = nullptr;
  std::string program;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  pid_t launcher = 0;
  int null_device = -1;
  int report = -1;
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

Step connect_streams(const PreparedChild& child) {
  const SpawnRequest& request = *child.request;
  const std::array<int, 3> sources{request.input, request.output, request.error};
  for (int stream = 0; stream < 3; ++stream) {
    const int source = sources[static_cast<std::size_t>(stream)];
    if (dup2(source >= 0 ? source : child.null_device, stream) < 0) return Step::streams;
  }
  return Step::none;
}

void set_signals(const SpawnRequest& request) {
  sigset_t mask;
  sigemptyset(&mask);
  sigprocmask(SIG_SETMASK, request.signal_mask ? &*request.signal_mask : &mask, nullptr);
  if (request.signal_mask) return;
  // A shell makes a background job ignore interrupts. The default actions are restored, so that the
  // program still reacts to signals.
  for (const int number : {SIGINT, SIGQUIT, SIGPIPE, SIGHUP, SIGTERM}) signal(number, SIG_DFL);
}

/// Executes the program in a forked child, by system calls only. Returns the step that failed; does
/// not return on success.
Step become_program(const PreparedChild& child) {
  const SpawnRequest& request = *child.request;
  set_signals(request);
  if (request.own_group) setpgid(0, 0);
  if (const Step step = enter(request.place); step != Step::none) return step;
  if (!request.host_name.empty()) {
    if (unshare(CLONE_NEWUTS) != 0) return Step::host_name;
    if (sethostname(request.host_name.data(), request.host_name.size()) != 0) {
      return Step::host_name;
    }
  }
  if (request.own_sysfs) show_own_network_in_sysfs();
  if (request.die_with_launcher) {
    // prctl(PR_SET_PDEATHSIG) must follow enter(), because entering a user namespace clears the
    // signal that prctl() sets.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != child.launcher) return Step::parent_gone;
  }
  if (const Step step = connect_streams(child); step != Step::none) return step;
  // execvpe() also runs scripts without a #! line, by a shell, as users expect of a launcher.
  execvpe(child.program.c_str(), child.arguments.data(), child.environment.data());
  return Step::execute;
}

[[noreturn]] void child_main(const PreparedChild& child) {
  ChildFailure failed{become_program(child), 0};
  failed.error_number = errno;
  (void)!write(child.report, &failed, sizeof failed);
  _exit(125);
}

/// Writes the input of a running program and reads its output until both outputs are closed.
void exchange(device::Descriptor input, std::string_view text, const device::Descriptor& output,
              const device::Descriptor& error, ProgramOutput& result) {
  if (text.empty()) input = {};
  std::array<pollfd, 3> polled{pollfd{input.get(), POLLOUT, 0}, pollfd{output.get(), POLLIN, 0},
                               pollfd{error.get(), POLLIN, 0}};
  while (polled[1].fd >= 0 || polled[2].fd >= 0) {
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[0].fd >= 0 && polled[0].revents != 0) {
      const ssize_t count = write(input.get(), text.data(), text.size());
      if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
      if (text.empty() || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        input = {};
        polled[0].fd = -1;
      }
    }
    for (std::size_t stream = 1; stream < 3; ++stream) {
      if (polled[stream].fd < 0 || polled[stream].revents == 0) continue;
      std::array<char, 65536> buffer;
      const ssize_t count = read(polled[stream].fd, buffer.data(), buffer.size());
      if (count > 0) {
        (stream == 1 ? result.output : result.error)
            .append(buffer.data(), static_cast<std::size_t>(count));
      } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
        polled[stream].fd = -1;
      }
    }
  }
}

std::string joined(const std::vector<std::string>& arguments) {
  return fmt::format("{}", fmt::join(arguments, " "));
}

/// The end of the error text for a missing program: names the Debian package, if it is known.
std::string package_hint(std::string_view program) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kPackages{
      {{"ip", "iproute2"}, {"tc", "iproute2"}, {"nft", "nftables"}, {"ethtool", "ethtool"}}};
  for (const auto& [name, package] : kPackages) {
    if (name == program) return fmt::format(": install the Debian package {}", package);
  }
  return ": install it, or give its full path";
}

/// The error output of a program, shortened and on one line.
std::string shortened(const std::string& text) {
  constexpr std::size_t kLongest = 600;
  std::string result = text.substr(0, kLongest);
  while (!result.empty() && (result.back() == '\n' || result.back() == ' ')) result.pop_back();
  for (char& c : result) {
    if (c == '\n') c = ' ';
  }
  return result.empty() ? "no error output" : result;
}

}  // namespace

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  const std::string folders =
      std::string(path != nullptr ? path : "/usr/bin:/bin") + ":/usr/sbin:/sbin";
  for (std::size_t begin = 0; begin <= folders.size();) {
    std::size_t end = folders.find(':', begin);
    if (end == std::string::npos) end = folders.size();
    const std::string candidate = folders.substr(begin, end - begin) + "/" + name;
    std::error_code ignored;
    // The right to execute a folder is the right to enter it, so only a file counts.
    if (end > begin && std::filesystem::is_regular_file(candidate, ignored) &&
        access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    begin = end + 1;
  }
  return failure(Code::unsupported, "program '{}' is not in PATH{}", name, package_hint(name));
}

Result<pid_t> spawn(const SpawnRequest& request) {
  if (request.arguments.empty())
    return failure(Code::invalid_argument, "no program to run is given: name one");
  Result<std::string> program = find_program(request.arguments.front());
  if (!program) return program.status();
  Result<Pipe> report = make_pipe();
  if (!report) return report.status();
  const device::Descriptor null_device(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_device.valid()) return system_failure(errno, "cannot open /dev/null");

  PreparedChild child;
  child.request = &request;
  child.program = *program;
  child.arguments = pointers(request.arguments);
  child.environment = pointers(request.environment);
  if (request.environment.empty()) {
    child.environment.clear();
    for (char** entry = environ; *entry != nullptr; ++entry) child.environment.push_back(*entry);
    child.environment.push_back(nullptr);
  }
  child.launcher = getpid();
  child.null_device = null_device.get();
  child.report = report->write.get();

  const pid_t pid = fork();
  if (pid < 0) return system_failure(errno, "cannot start '{}'", request.arguments.front());
  if (pid == 0) child_main(child);
  report->write = {};
  ChildFailure failed;
  ssize_t count = 0;
  do {
    count = read(report->read.get(), &failed, sizeof failed);
  } while (count < 0 && errno == EINTR);
  if (count == 0) return pid;  // the pipe was closed by exec, so the program runs
  (void)wait_for(pid);
  const std::string& name = request.arguments.front();
  if (failed.step == Step::execute) {
    return system_failure(failed.error_number, "cannot start '{}'", name);
  }
  return system_failure(failed.error_number, "cannot start '{}': cannot {}", name,
                        describe(failed.step));
}

std::vector<std::string> environment_with(std::vector<std::string> variables) {
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  // Only the first variable of each name stays, because programs differ in which of two variables
  // with the same name they use.
  std::set<std::string, std::less<>> names;
  std::erase_if(variables, [&names](const std::string& variable) {
    return !names.insert(variable.substr(0, variable.find('='))).second;
  });
  return variables;
}

Result<pid_t> fork_into(const NetNamespace& place, const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid < 0) return system_failure(errno, "cannot start a process");
  if (pid == 0) _exit(enter(place) == Step::none ? body() : 125);
  return pid;
}

Result<int> wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return system_failure(errno, "cannot wait for process {}", pid);
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Result<ProgramOutput> run_program(const NetNamespace& place,
                                  const std::vector<std::string>& arguments,
                                  std::string_view input) {
  Result<Pipe> in = make_pipe();
  Result<Pipe> out = make_pipe();
  Result<Pipe> err = make_pipe();
  if (!in) return in.status();
  if (!out) return out.status();
  if (!err) return err.status();
  SpawnRequest request;
  request.arguments = arguments;
  request.place = place;
  // The tool gets a new process group, because an interrupt at the terminal would otherwise stop
  // the tool half-way.
  request.own_group = true;
  request.input = in->read.get();
  request.output = out->write.get();
  request.error = err->write.get();
  Result<pid_t> pid = spawn(request);
  if (!pid) return pid.status();
  in->read = {};
  out->write = {};
  err->write = {};
  fcntl(in->write.get(), F_SETFL, O_NONBLOCK);

  // If the program ends before it has read all input, SIGPIPE must not end this process.
  sigset_t broken_pipe;
  sigset_t before;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
  ProgramOutput result;
  exchange(std::move(in->write), input, out->read, err->read, result);
  const timespec no_time{};
  if (sigismember(&before, SIGPIPE) == 0) sigtimedwait(&broken_pipe, nullptr, &no_time);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);

  Result<int> status = wait_for(*pid);
  if (!status) return status.status();
  result.exit_status = *status;
  return result;
}

Result<std::string> run_checked(const NetNamespace& place,
                                const std::vector<std::string>& arguments, std::string_view input,
                                std::string_view purpose) {
  Result<ProgramOutput> result = run_program(place, arguments, input);
  if (!result) return result.status();
  if (result->exit_status != 0) {
    return failure(Code::system, "cannot {}: program '{}' ended with exit status {}: {}", purpose,
                   joined(arguments), result->exit_status, shortened(result->error));
  }
  return std::move(result->output);
}

}  // namespace tutti::launch
