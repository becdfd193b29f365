// A lab for tests, benchmarks and `tutti lab`. Its hosts are network namespaces, connected by a
// bridge that forwards multicast only to the members of a group. The kernel provides the link rates
// and the losses; nothing is simulated.
//
// A temporary lab lives in the private namespaces of a keeper process and ends with its owner; it
// needs no root. A persistent lab needs root, and `ip netns exec` finds its namespaces by name.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/posix/descriptor.hpp"
#include "lab/options.hpp"
#include "lab/port_bytes.hpp"
#include "launch/process.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// The features of labs that this machine supports. Each Status is ok, or its text names what is
/// missing and how to get it.
struct LabSupport {
  Status temporary;   ///< support for temporary labs, which all other features need, too
  Status persistent;  ///< support for persistent labs, made by `tutti lab up`
  Status shaping;     ///< support for link rates
  /// Support for turning segmentation offload off, so that impairments affect single datagrams.
  Status offload;
  Status loss;    ///< support for loss, shared loss, burst loss and corruption
  Status detour;  ///< support for duplication and reordering
};

/// Tries each feature in private namespaces to find out whether it works; takes tens of
/// milliseconds.
LabSupport lab_support();

/// One lab. Movable, not thread-safe. The destructor removes a temporary lab.
class Lab {
 public:
  /// Builds a lab. If a step fails, removes what was built and returns the error.
  static Result<Lab> create(const LabOptions& options);

  /// Opens the lab of this name that another process made. Destroying the returned object does not
  /// remove the lab.
  static Result<Lab> attach(const std::string& name);

  Lab(Lab&&) noexcept;
  Lab& operator=(Lab&&) noexcept;
  ~Lab();

  const LabOptions& options() const;
  const std::string& name() const { return options().name; }
  int hosts() const { return options().hosts; }
  int aggregators() const { return options().aggregators; }

  /// The names of the network namespaces, such as "tutti-NAME-h0" and "tutti-NAME-sw". `ip netns`
  /// finds those of a temporary lab only in the keeper's mount namespace.
  std::string host_namespace(int host) const;
  std::string switch_namespace() const;

  /// The addresses of a host: "10.77.0.1" for host 0, and "fd77::1" if the lab has IPv6.
  std::string address(int host) const;
  std::string address6(int host) const;

  /// The network namespace and the IP address of an aggregator: "tutti-NAME-a0" and "10.77.0.251"
  /// for aggregator 0.
  std::string aggregator_namespace(int aggregator) const;
  std::string aggregator_address(int aggregator) const;

  /// The namespaces in which a host's programs run. Valid until the lab object is destroyed.
  Result<launch::NetNamespace> host_place(int host) const;

  /// Returns a copy of `request` that starts the program in the namespaces of a host. On host 3 the
  /// program sees the host name "host3".
  Result<launch::SpawnRequest> request_on(int host, launch::SpawnRequest request) const;

  /// Starts a program on a host and returns its process id. The caller must reap the process
  /// (waitpid).
  Result<pid_t> spawn_on(int host, launch::SpawnRequest request) const;

  /// Starts a program in the namespace of an aggregator and returns its process id. The caller must
  /// reap the process (waitpid).
  Result<pid_t> spawn_at_aggregator(int aggregator, launch::SpawnRequest request) const;

  /// Forks a child that runs `body` on the host and exits with the result of `body`. The caller
  /// must wait for the child.
  Result<pid_t> fork_on(int host, const std::function<int()>& body) const;

  /// Makes a socket in the network namespace of a host, for use in this process.
  Result<device::Descriptor> socket_on(int host, int domain, int type, int protocol = 0) const;

  /// Runs a network tool such as `ip`, `tc` or `ss` on a host, or on the switch, and waits for its
  /// end.
  Result<launch::ProgramOutput> tool_on(int host, const std::vector<std::string>& arguments) const;
  Result<launch::ProgramOutput> tool_on_switch(const std::vector<std::string>& arguments) const;

  /// The counters of every link, indexed by host.
  Result<std::vector<PortBytes>> port_bytes() const;

  /// Replaces all impairments. The change is atomic: no packet meets a mixture of old and new
  /// impairments.
  Status set_impairments(const Impairments& impairments);
  /// Replaces the loss at each receiver's port (`percent`) and at the sender's port
  /// (`shared_percent`), and leaves all other impairments as they are.
  Status set_loss(double percent, double shared_percent = 0);

  /// Disconnects or connects a host's link, as if its cable were pulled or plugged in.
  Status link_down(int host) { return set_port(host, "down"); }
  Status link_up(int host) { return set_port(host, "up"); }
  /// Sets the MTU of a host's switch port, and leaves the MTU of the host as it is. The port drops
  /// longer packets.
  Status set_port_mtu(int host, int bytes) {
    return set_port(host, "mtu " + std::to_string(bytes));
  }

  /// Kills the processes in the lab and removes the lab. Afterwards the object must not be used.
  Status tear_down();

 private:
  /// Changes the switch port of a host; `change` is the end of an `ip link set` command.
  Status set_port(int host, const std::string& change);

  struct Parts;
  explicit Lab(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

/// Removes what is left of labs whose owner was killed, and returns the names of these labs.
/// create() and the commands of `tutti lab` call this function first.
std::vector<std::string> remove_abandoned_labs();

/// Removes the persistent lab of this name, even if parts of it are missing.
Status remove_lab(const std::string& name);

}  // namespace tutti::lab
