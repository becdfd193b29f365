#include "lab/keeper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "launch/process.hpp"

namespace tutti::lab {

namespace {

enum class SetUp : unsigned char { ready, namespaces, identity, mounts };

struct Report {
  SetUp state = SetUp::ready;
  int error_number = 0;
};

/// The data that the keeper process needs, prepared before fork.
struct Plan {
  bool user_namespace = false;
  std::string user_map;
  std::string group_map;
  int owner = -1;   ///< descriptor that becomes readable when the owning process has ended
  int report = -1;  ///< descriptor to which the keeper writes its Report
};

bool write_file(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t length = static_cast<ssize_t>(std::strlen(text));
  const bool written = write(fd, text, static_cast<std::size_t>(length)) == length;
  const int error_number = errno;
  close(fd);
  errno = error_number;
  return written;
}

SetUp make_namespaces(const Plan& plan) {
  const int user = plan.user_namespace ? CLONE_NEWUSER : 0;
  if (unshare(user | CLONE_NEWNS | CLONE_NEWNET) != 0) return SetUp::namespaces;
  if (plan.user_namespace) {
    // A user without root rights may write gid_map only after writing "deny" to setgroups.
    if (!write_file("/proc/self/setgroups", "deny") ||
        !write_file("/proc/self/uid_map", plan.user_map.c_str()) ||
        !write_file("/proc/self/gid_map", plan.group_map.c_str())) {
      return SetUp::identity;
    }
  }
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tutti-lab", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=16m") != 0 ||
      mkdir("/run/netns", 0755) != 0) {
    return SetUp::mounts;
  }
  return SetUp::ready;
}

std::set<ino_t> own_namespaces() {
  std::set<ino_t> inodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", error)) {
    inodes.insert(launch::namespace_inode(entry.path().string()));
  }
  inodes.erase(0);
  return inodes;
}

[[noreturn]] void keep(const Plan& plan) {
  // The keeper has its own session, so that an interrupt at the terminal reaches only the owner,
  // which then ends the lab.
  setsid();
  prctl(PR_SET_NAME, "tutti-lab");
  Report report{make_namespaces(plan), 0};
  report.error_number = errno;
  (void)!write(plan.report, &report, sizeof report);
  if (report.state != SetUp::ready) _exit(1);

  // The keeper closes every inherited descriptor, because the reader of an inherited pipe would
  // otherwise wait until the keeper exits. Only the descriptor that shows the exit of the owner
  // stays open, as number 3.
  const int null_device = open("/dev/null", O_RDWR);
  for (int stream = 0; stream < 3; ++stream) dup2(null_device, stream);
  dup2(plan.owner, 3);
  close_range(4, ~0U, 0);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  pollfd owner{3, POLLIN, 0};
  while (poll(&owner, 1, -1) != 1) {
  }
  launch::end_processes_in(own_namespaces());
  _exit(0);
}

Status failed_set_up(const Report& report, bool user_namespace) {
  switch (report.state) {
    case SetUp::namespaces:
      return system_failure(report.error_number,
                            "cannot make namespaces{}: run as root, or allow user namespaces "
                            "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone)",
                            user_namespace ? " as a plain user" : "");
    case SetUp::identity:
      return system_failure(report.error_number,
                            "the user namespace cannot map this user: run as root, or allow it "
                            "(sysctl kernel.apparmor_restrict_unprivileged_userns=0)");
    case SetUp::mounts:
      return system_failure(report.error_number,
                            "cannot mount a private /run in the lab's mount namespace: run as "
                            "root, or allow user namespaces to mount "
                            "(sysctl kernel.apparmor_restrict_unprivileged_userns=0)");
    case SetUp::ready:
      break;
  }
  return failure(
      Code::internal,
      "the process that holds the lab's namespaces failed at an unknown step: report this "
      "as a defect");
}

Result<device::Descriptor> open_namespace(pid_t pid, const char* kind) {
  const std::string path = fmt::format("/proc/{}/ns/{}", pid, kind);
  device::Descriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor.valid()) return system_failure(errno, "cannot open {}", path);
  return descriptor;
}

}  // namespace

bool may_make_namespaces() {
  const pid_t pid = fork();
  if (pid == 0) _exit(unshare(CLONE_NEWNS | CLONE_NEWNET) == 0 ? 0 : 1);
  if (pid < 0) return false;
  const Result<int> status = launch::wait_for(pid);
  return status && *status == 0;
}

std::string namespace_path(pid_t keeper, const std::string& name) {
  if (keeper == 0) return "/run/netns/" + name;
  return fmt::format("/proc/{}/root/run/netns/{}", keeper, name);
}

Result<Keeper> Keeper::start() {
  Plan plan;
  plan.user_namespace = !may_make_namespaces();
  plan.user_map = fmt::format("0 {} 1", geteuid());
  plan.group_map = fmt::format("0 {} 1", getegid());
  const device::Descriptor owner(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!owner.valid()) return system_failure(errno, "cannot watch this process");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_failure(errno, "cannot make a pipe");
  const device::Descriptor read_end(ends[0]);
  device::Descriptor write_end(ends[1]);
  plan.owner = owner.get();
  plan.report = write_end.get();

  const pid_t pid = fork();
  if (pid < 0)
    return system_failure(errno, "cannot start the process that holds the lab's namespaces");
  if (pid == 0) keep(plan);
  write_end = {};
  Keeper keeper(pid);
  Report report;
  ssize_t count = 0;
  do {
    count = read(read_end.get(), &report, sizeof report);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof report)) {
    return failure(Code::system,
                   "process {}, which holds the lab's namespaces, ended before the lab was ready: "
                   "make the lab again",
                   pid);
  }
  if (report.state != SetUp::ready) return failed_set_up(report, plan.user_namespace);

  if (plan.user_namespace) {
    Result<device::Descriptor> user = open_namespace(pid, "user");
    if (!user) return user.status();
    keeper.user_ = std::move(*user);
  }
  Result<device::Descriptor> mount = open_namespace(pid, "mnt");
  if (!mount) return mount.status();
  keeper.mount_ = std::move(*mount);
  Result<device::Descriptor> network = open_namespace(pid, "net");
  if (!network) return network.status();
  keeper.network_ = std::move(*network);
  return keeper;
}

Keeper::Keeper(pid_t pid) : pid_(pid), owner_(getpid()) {}

Keeper::Keeper(Keeper&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      owner_(other.owner_),
      user_(std::move(other.user_)),
      mount_(std::move(other.mount_)),
      network_(std::move(other.network_)) {}

Keeper& Keeper::operator=(Keeper&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(owner_, other.owner_);
  std::swap(user_, other.user_);
  std::swap(mount_, other.mount_);
  std::swap(network_, other.network_);
  return *this;
}

Keeper::~Keeper() {
  // A forked child has a copy of this object, and this copy must not end the keeper process.
  if (pid_ <= 0 || owner_ != getpid()) return;
  kill(pid_, SIGKILL);
  (void)launch::wait_for(pid_);
}

launch::NetNamespace Keeper::place() const {
  return {.user = user_.get(), .mount = mount_.get(), .network = network_.get()};
}

}  // namespace tutti::lab
