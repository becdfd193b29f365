// Where a process runs: the namespaces it enters between fork and exec.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "tutti/status.hpp"

namespace tutti::lab {

/// Namespaces to enter, as open descriptors that somebody else owns; -1 keeps the caller's own. And
/// the cores to run on; empty: the caller's.
struct NetNamespace {
  int user = -1;
  int mount = -1;
  int network = -1;
  std::optional<cpu_set_t> cores{};
};

/// What a failed step in a new process was; sent to its parent as one byte.
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

/// What the step does, for messages: "enter the network namespace".
const char* describe(Step step);

/// Enters the place. Only for a process with one thread (a fresh fork), and safe right after fork:
/// system calls alone. Returns the failed step, with errno set, or Step::none.
Step enter(const NetNamespace& place);

/// Gives the calling process an own view of /sys, in which /sys/class/net shows its network
/// namespace. Some containers forbid this; /sys then stays as it is, which only programs that look
/// for interfaces there notice. System calls alone.
void show_own_network_in_sysfs();

/// Ends every process whose network namespace is one of these inode numbers, and returns how many
/// there were. Spares this process, and every process in its own network namespace.
int end_processes_in(const std::set<ino_t>& network_namespaces);

/// The inode number of a namespace, by its path; 0 if there is none at the path.
ino_t namespace_inode(const std::string& path);

/// The start of a process in clock ticks since boot, which tells a process from a later one that
/// got the same number; 0 if there is no such process.
std::uint64_t process_start(pid_t pid);

}  // namespace tutti::lab
