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

/// The namespaces that a process enters and the cores that it runs on. The caller keeps the
/// descriptors; -1 stands for the current namespace.
struct NetNamespace {
  int user = -1;
  int mount = -1;
  int network = -1;
  std::optional<cpu_set_t> cores{};  ///< cores to run on; unset: the caller's cores
};

/// The step of starting a process that failed, as the child reports it to its parent.
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

/// The step as text for an error: "enter the network namespace".
const char* describe(Step step);

/// Enters the namespaces and takes the cores; returns Step::none, or the failed step with errno
/// set. Makes only system calls, so it is safe after fork; the process must have a single thread.
Step enter(const NetNamespace& place);

/// Gives the calling process its own /sys, in which /sys/class/net shows its network namespace.
/// Makes only system calls; in a container that forbids the mount, /sys stays unchanged.
void show_own_network_in_sysfs();

/// Kills every process in the network namespaces with these inode numbers and returns the number of
/// processes. The calling process and all processes in its own network namespace are spared.
int end_processes_in(const std::set<ino_t>& network_namespaces);

/// The inode number of the namespace at a path; 0 if there is none.
ino_t namespace_inode(const std::string& path);

/// The start time of a process in clock ticks since boot, which distinguishes the process from a
/// later one with the same number; 0 if there is no such process.
std::uint64_t process_start(pid_t pid);

}  // namespace tutti::launch
