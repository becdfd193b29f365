// Moves a new process into namespaces and onto cores, between fork and exec.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "tutti/status.hpp"

namespace tutti::launch {

/// The namespaces that a process enters, and the cores that it runs on. Each namespace is given by
/// a descriptor that the caller owns; -1 means that the process stays in its present namespace.
struct NetNamespace {
  int user = -1;
  int mount = -1;
  int network = -1;
  std::optional<cpu_set_t> cores{};  ///< cores to run on; unset: the caller's cores
};

/// The step at which starting a process failed; the child reports it to its parent.
enum class Step : unsigned char {
  none,
  enter_user,
  enter_network,
  enter_mount,
  take_cores,
  host_name,
  parent_gone,
  streams,
  execute,
};

/// The step as text for an error message, such as "enter the network namespace".
const char* describe(Step step);

/// Moves the calling process into the namespaces and onto the cores. Returns Step::none, or the
/// failed step with errno set. The process must have a single thread; the function makes only
/// system calls, so that it is safe after fork.
Step enter(const NetNamespace& place);

/// Mounts a /sys for the calling process only, in which /sys/class/net shows its network namespace.
/// If the mount is forbidden, as in some containers, /sys stays unchanged. Makes only system calls.
void show_own_network_in_sysfs();

/// Kills every process whose network namespace has one of these inode numbers, and returns how many
/// were killed. Never kills processes in the network namespace of the caller.
int end_processes_in(const std::set<ino_t>& network_namespaces);

/// The inode number of the namespace at a path; 0 if there is none.
ino_t namespace_inode(const std::string& path);

/// The start time of a process in clock ticks since boot; 0 if there is no such process. It
/// distinguishes the process from a later one with the same process id.
std::uint64_t process_start(pid_t pid);

}  // namespace tutti::launch
