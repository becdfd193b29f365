// The keeper: a small process in whose private namespaces a temporary lab lives.
#pragma once

#include <sys/types.h>

#include <string>

#include "lab/descriptor.hpp"
#include "lab/place.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// Owns a process that holds a mount namespace with an empty /run (so that the lab's network
/// namespaces have names only there), a network namespace and, where the caller is not root, a user
/// namespace in which it is. The process ends with its owner, whatever ends the owner, and takes
/// the processes inside the lab along; the kernel then removes the rest. Nothing is left to clean
/// up.
class Keeper {
 public:
  static Result<Keeper> start();

  Keeper(Keeper&&) noexcept;
  Keeper& operator=(Keeper&&) noexcept;
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  /// Ends the keeper.
  ~Keeper();

  pid_t pid() const { return pid_; }
  /// Its own namespaces, to run `ip` and the like in. The network namespace is empty, and no
  /// host's.
  NetNamespace place() const;

 private:
  explicit Keeper(pid_t pid);

  pid_t pid_ = -1;
  pid_t owner_ = -1;
  Descriptor user_;
  Descriptor mount_;
  Descriptor network_;
};

/// Whether this process may make namespaces as it is; otherwise a user namespace is needed.
bool may_make_namespaces();

/// The path of a lab's network namespace as seen from outside the keeper's mount namespace; keeper
/// 0: one that has a name for everybody.
std::string namespace_path(pid_t keeper, const std::string& name);

}  // namespace tutti::lab
