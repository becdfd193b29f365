#include "launch/place.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tutti::launch {

const char* describe(Step step) {
  switch (step) {
    case Step::none:
      return "nothing";
    case Step::enter_user:
      return "enter the user namespace";
    case Step::enter_network:
      return "enter the network namespace";
    case Step::enter_mount:
      return "enter the mount namespace";
    case Step::take_cores:
      return "run on its share of the cores";
    case Step::host_name:
      return "set its host name";
    case Step::parent_gone:
      return "run after its launcher has ended";
    case Step::streams:
      return "connect standard input and output";
    case Step::execute:
      return "execute the program";
  }
  return "unknown step";
}

Step enter(const NetNamespace& place) {
  // The user namespace comes first, because it grants the rights to enter the other namespaces.
  if (place.user >= 0 && setns(place.user, CLONE_NEWUSER) != 0) return Step::enter_user;
  if (place.network >= 0 && setns(place.network, CLONE_NEWNET) != 0) return Step::enter_network;
  if (place.mount >= 0 && setns(place.mount, CLONE_NEWNS) != 0) return Step::enter_mount;
  if (place.cores && sched_setaffinity(0, sizeof(cpu_set_t), &*place.cores) != 0) {
    return Step::take_cores;
  }
  return Step::none;
}

void show_own_network_in_sysfs() {
  if (unshare(CLONE_NEWNS) != 0) return;
  if (mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return;
  // Programs read their limits in /sys/fs/cgroup. The new sysfs would hide the mounts there, so
  // these mounts are moved into the new sysfs.
  const int control_groups =
      open_tree(AT_FDCWD, "/sys/fs/cgroup", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
  const bool mounted =
      mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
  if (control_groups < 0) return;
  if (mounted) {
    (void)move_mount(control_groups, "", AT_FDCWD, "/sys/fs/cgroup", MOVE_MOUNT_F_EMPTY_PATH);
  }
  close(control_groups);
}

int end_processes_in(const std::set<ino_t>& network_namespaces) {
  // Processes in the caller's network namespace are never killed, even if a damaged file under
  // /run/netns leads to this namespace.
  const ino_t own = namespace_inode("/proc/self/ns/net");
  DIR* processes = opendir("/proc");
  if (processes == nullptr) return 0;
  int ended = 0;
  while (const dirent* entry = readdir(processes)) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (pid <= 1 || pid == getpid()) continue;
    const ino_t inode = namespace_inode("/proc/" + std::to_string(pid) + "/ns/net");
    if (inode == 0 || inode == own || !network_namespaces.contains(inode)) continue;
    if (kill(pid, SIGKILL) == 0) ++ended;
  }
  closedir(processes);
  return ended;
}

ino_t namespace_inode(const std::string& path) {
  struct statfs system {};
  struct stat info {};
  if (statfs(path.c_str(), &system) != 0 || system.f_type != NSFS_MAGIC) return 0;
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

std::uint64_t process_start(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  // In /proc/PID/stat, field 2 is the program name in parentheses, and the name may itself contain
  // blanks and parentheses. Fields are therefore counted from the last closing parenthesis.
  const auto bracket = line.rfind(')');
  if (bracket == std::string::npos) return 0;
  std::istringstream rest(line.substr(bracket + 1));
  std::string field;
  constexpr int kStartField = 22;
  for (int number = 3; number < kStartField; ++number) {
    rest >> field;
    // The states Z (zombie) and X (dead) mean that the process has ended.
    if (number == 3 && (field == "Z" || field == "X")) return 0;
  }
  std::uint64_t start = 0;
  rest >> start;
  return start;
}

}  // namespace tutti::launch
