#include "child_process.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/error.hpp"

namespace tutti::app {
namespace {

enum class Step : int { lifetime, netns, output, exec };

struct Trouble {
  Step step = Step::exec;
  int error = 0;
};

/// All that the child needs, made before the fork: after it only system calls are safe.
struct Prepared {
  std::vector<char*> arguments;
  std::vector<std::string> variables;
  std::vector<char*> environment;
  int netns_fd = -1;
  int null_fd = -1;
  int report_fd = -1;
  pid_t parent = 0;
};

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('=') + 1);
}

std::vector<std::string> merged_environment(const std::vector<std::string>& ours) {
  std::vector<std::string> all = ours;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    bool replaced = false;
    for (const std::string& variable : ours) {
      replaced = replaced || name_of(variable) == name_of(*entry);
    }
    if (!replaced) all.emplace_back(*entry);
  }
  return all;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

[[noreturn]] void give_up(int report_fd, Step step, int error) {
  const Trouble trouble{step, error};
  [[maybe_unused]] const ssize_t written = write(report_fd, &trouble, sizeof trouble);
  _exit(127);
}

[[noreturn]] void become(const ChildOptions& options, const Prepared& prepared) {
  const auto need = [&](bool done, Step step) {
    if (!done) give_up(prepared.report_fd, step, errno);
  };
  setpgid(0, 0);
  need(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, Step::lifetime);
  // The parent may have died before the line above.
  if (getppid() != prepared.parent) _exit(127);
  if (prepared.netns_fd >= 0) need(setns(prepared.netns_fd, CLONE_NEWNET) == 0, Step::netns);
  need(dup2(prepared.null_fd, 0) >= 0, Step::output);
  need(dup2(options.out_fd, 1) >= 0, Step::output);
  need(dup2(options.err_fd, 2) >= 0, Step::output);
  sigprocmask(SIG_SETMASK, &options.signal_mask, nullptr);
  execvpe(prepared.arguments[0], prepared.arguments.data(), prepared.environment.data());
  give_up(prepared.report_fd, Step::exec, errno);
}

Status describe(const Trouble& trouble, const ChildOptions& options) {
  switch (trouble.step) {
    case Step::lifetime:
      return system_failure(trouble.error, "cannot tie a rank to the launcher");
    case Step::netns:
      return system_failure(trouble.error, "cannot enter the network namespace {}", options.netns);
    case Step::output:
      return system_failure(trouble.error, "cannot connect the output of a rank");
    case Step::exec:
      break;
  }
  return system_failure(trouble.error, "cannot start '{}'", options.program[0]);
}

Result<pid_t> fork_child(const ChildOptions& options, Prepared& prepared) {
  std::array<int, 2> report{};
  if (pipe2(report.data(), O_CLOEXEC) != 0) return system_failure(errno, "cannot make a pipe");
  prepared.report_fd = report[1];
  prepared.parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(options, prepared);
  const int fork_error = errno;
  close(report[1]);
  if (pid < 0) {
    close(report[0]);
    return system_failure(fork_error, "cannot fork");
  }
  setpgid(pid, pid);
  Trouble trouble;
  ssize_t got = 0;
  do {
    got = read(report[0], &trouble, sizeof trouble);
  } while (got < 0 && errno == EINTR);
  close(report[0]);
  if (got == 0) return pid;  // closed by exec
  waitpid(pid, nullptr, 0);
  return describe(trouble, options);
}

}  // namespace

Result<pid_t> start_child(const ChildOptions& options) {
  Prepared prepared;
  if (!options.netns.empty()) {
    const std::string path = "/run/netns/" + options.netns;
    prepared.netns_fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (prepared.netns_fd < 0) {
      return system_failure(errno, "cannot open the network namespace {}", path);
    }
  }
  prepared.null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  prepared.arguments = pointers(options.program);
  prepared.variables = merged_environment(options.variables);
  prepared.environment = pointers(prepared.variables);
  auto pid = fork_child(options, prepared);
  if (prepared.netns_fd >= 0) close(prepared.netns_fd);
  if (prepared.null_fd >= 0) close(prepared.null_fd);
  return pid;
}

}  // namespace tutti::app
