// A lab for tests, benchmarks and `tutti lab`: hosts as network namespaces, joined by a bridge that
// forwards multicast to members only. The kernel provides link rates and loss; nothing is
// simulated.
//
// A temporary lab lives in the private namespaces of a keeper process, works for a plain user (by
// user namespaces), and never outlives its owner. A persistent lab needs root and has named
// namespaces that `ip netns exec` finds.
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

/// The features of labs that this machine supports. Each Status is ok, or names what is missing and
/// the fix.
struct LabSupport {
  Status temporary;   ///< support for a lab that ends with its owner, which all other features need
  Status persistent;  ///< support for a lab that stays after `tutti lab up`
  Status shaping;     ///< support for link rates
  Status offload;     ///< support for turning segmentation off, which impairments per datagram need
  Status loss;        ///< support for loss, shared loss, burst loss and corruption
  Status detour;      ///< support for duplication and reordering
};

/// Tries every feature once in private namespaces, which takes tens of milliseconds.
LabSupport lab_support();

/// One lab. Movable, not thread-safe. The destructor removes a temporary lab.
class Lab {
 public:
  /// Builds a lab; after a failure nothing of the lab is left.
  static Result<Lab> create(const LabOptions& options);

  /// Attaches to the lab of this name, which another process made. The lab outlives this object.
  static Result<Lab> attach(const std::string& name);

  Lab(Lab&&) noexcept;
  Lab& operator=(Lab&&) noexcept;
  ~Lab();

  const LabOptions& options() const;
  const std::string& name() const { return options().name; }
  int hosts() const { return options().hosts; }
  int aggregators() const { return options().aggregators; }

  /// The names of namespaces as `ip netns` knows them, such as "tutti-NAME-h0" and "tutti-NAME-sw";
  /// for a temporary lab only inside the keeper.
  std::string host_namespace(int host) const;
  std::string switch_namespace() const;

  /// The addresses of a host: "10.77.0.1" for host 0, and "fd77::1" if the lab has IPv6.
  std::string address(int host) const;
  std::string address6(int host) const;

  /// The namespace and address of an aggregator place, "tutti-NAME-a0" and "10.77.0.251" for the
  /// first.
  std::string aggregator_namespace(int aggregator) const;
  std::string aggregator_address(int aggregator) const;

  /// The namespaces in which a host's programs run; valid as long as the lab.
  Result<launch::NetNamespace> host_place(int host) const;

  /// Completes a request to start a program with a host's namespaces and host name.
  Result<launch::SpawnRequest> request_on(int host, launch::SpawnRequest request) const;

  /// Starts a program on a host. The caller must wait for its end.
  Result<pid_t> spawn_on(int host, launch::SpawnRequest request) const;

  /// Starts a program at an aggregator place. The caller must wait for its end.
  Result<pid_t> spawn_at_aggregator(int aggregator, launch::SpawnRequest request) const;

  /// Forks a process that runs `body` on the host and exits with its result. The caller must wait
  /// for its end.
  Result<pid_t> fork_on(int host, const std::function<int()>& body) const;

  /// Makes a socket of a host's network for use in this process.
  Result<device::Descriptor> socket_on(int host, int domain, int type, int protocol = 0) const;

  /// Runs a network tool (`ip`, `tc`, `ss`) to its end on a host, or on the switch.
  Result<launch::ProgramOutput> tool_on(int host, const std::vector<std::string>& arguments) const;
  Result<launch::ProgramOutput> tool_on_switch(const std::vector<std::string>& arguments) const;

  /// The counters of every link, indexed by host.
  Result<std::vector<PortBytes>> port_bytes() const;

  /// Replaces all impairments atomically between two packets.
  Status set_impairments(const Impairments& impairments);
  /// Replaces the independent and the shared loss and keeps all other impairments.
  Status set_loss(double percent, double shared_percent = 0);

  /// Disconnects or connects a host's link, as if its cable were pulled or plugged in.
  Status link_down(int host);
  Status link_up(int host);

  /// Ends the processes inside the lab and removes it. The object is empty afterwards.
  Status tear_down();

 private:
  struct Parts;
  explicit Lab(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

/// Removes the remains of labs whose owner was killed and returns their names. create() and the
/// commands call this first.
std::vector<std::string> remove_abandoned_labs();

/// Removes a persistent lab, even if parts of it are missing.
Status remove_lab(const std::string& name);

}  // namespace tutti::lab
