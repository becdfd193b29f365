// The namespaces and cores that a new process takes between fork and exec.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "tutti/status.hpp"

namespace tutti::launch {

/// Namespaces to enter and cores to run on. The descriptors stay the property of the caller; -1
/// keeps the current namespace.
struct NetNamespace {
  int user = -1;
  int mount = -1;
  int network = -1;
  std::optional<cpu_set_t> cores{};  ///< unset: the caller's cores
};

/// The step that failed in a new process; the child sends it to its parent.
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

/// The step as it reads in an error: "enter the network namespace".
const char* describe(Step step);

/// Enters the place and returns the failed step, with errno set, or Step::none. Makes system calls
/// only, so it is safe after fork; the process must have a single thread.
Step enter(const NetNamespace& place);

/// Gives the calling process its own /sys, in which /sys/class/net shows its network namespace.
/// Makes system calls only; a container that forbids the mount keeps its /sys.
void show_own_network_in_sysfs();

/// Kills every process in the network namespaces with these inode numbers and returns their count.
/// Spares the calling process and every process in its own network namespace.
int end_processes_in(const std::set<ino_t>& network_namespaces);

/// The inode number of the namespace at a path; 0 if there is none.
ino_t namespace_inode(const std::string& path);

/// The start of a process in clock ticks since boot, which distinguishes it from a later process
/// with the same number; 0 if there is no such process.
std::uint64_t process_start(pid_t pid);

}  // namespace tutti::launch
