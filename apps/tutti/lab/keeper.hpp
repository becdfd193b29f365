// The keeper is a small process that holds the private namespaces in which a temporary lab lives.
#pragma once

#include <sys/types.h>

#include <string>

#include "device/posix/descriptor.hpp"
#include "launch/place.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// Owns the keeper process. The keeper has a network namespace and a mount namespace with an empty
/// /run, so that names of network namespaces are visible only in the lab. If the caller is not
/// root, the keeper also has a user namespace that maps the caller to root. The keeper ends when
/// its owner ends for any reason. Before it ends, it kills the processes in the lab; the kernel
/// then removes the namespaces.
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
  /// The namespaces of the keeper process itself, in which tools such as `ip` run. Its network
  /// namespace is empty and belongs to no host of the lab.
  launch::NetNamespace place() const;

 private:
  explicit Keeper(pid_t pid);

  pid_t pid_ = -1;
  pid_t owner_ = -1;
  device::Descriptor user_;
  device::Descriptor mount_;
  device::Descriptor network_;
};

/// Whether this process may make network and mount namespaces without making a user namespace
/// first.
bool may_make_namespaces();

/// The path of the network namespace `name`, seen from outside the lab. If `keeper` is 0, the path
/// leads to a file in /run/netns, otherwise to a file in the keeper's mount namespace.
std::string namespace_path(pid_t keeper, const std::string& name);

}  // namespace tutti::lab
