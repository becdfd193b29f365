// The keeper: a small process that owns the private namespaces of a temporary lab.
#pragma once

#include <sys/types.h>

#include <string>

#include "device/posix/descriptor.hpp"
#include "launch/place.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// Owns a process with private namespaces: a mount namespace with an empty /run, so that the names
/// of the lab's namespaces are visible only inside, a network namespace and, if the caller is not
/// root, a user namespace that maps the caller to root. The process ends when its owner ends for
/// any reason, and kills the processes inside the lab; the kernel then removes the namespaces.
class Keeper {
 public:
  static Result<Keeper> start();

  Keeper(Keeper&&) noexcept;
  Keeper& operator=(Keeper&&) noexcept;
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  /// Ends the keeper process.
  ~Keeper();

  pid_t pid() const { return pid_; }
  /// The keeper's own namespaces, in which tools such as `ip` run. The network namespace is empty
  /// and belongs to no host.
  launch::NetNamespace place() const;

 private:
  explicit Keeper(pid_t pid);

  pid_t pid_ = -1;
  pid_t owner_ = -1;
  device::Descriptor user_;
  device::Descriptor mount_;
  device::Descriptor network_;
};

/// Whether this process may make namespaces without a user namespace.
bool may_make_namespaces();

/// The path of a lab's network namespace, seen from outside the keeper's mount namespace. Keeper 0
/// stands for a namespace with a name in /run/netns.
std::string namespace_path(pid_t keeper, const std::string& name);

}  // namespace tutti::lab
