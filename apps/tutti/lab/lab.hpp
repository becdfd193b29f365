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

/// The abilities of this machine. Each Status is ok, or names what is missing and the fix.
struct LabSupport {
  Status temporary;   ///< a lab that ends with its owner; required by everything below
  Status persistent;  ///< a lab that stays after `tutti lab up`
  Status shaping;     ///< link rates
  Status offload;     ///< turning segmentation off, needed for impairments per datagram
  Status loss;        ///< loss, shared loss, burst loss, corruption
  Status detour;      ///< duplication and reordering
};

/// Tries every feature once in private namespaces, in tens of milliseconds.
LabSupport lab_support();

/// One lab. Movable; the destructor takes down a temporary lab. Not thread-safe.
class Lab {
 public:
  /// Builds a lab, or fails and leaves nothing behind.
  static Result<Lab> create(const LabOptions& options);

  /// Attaches to the lab of this name that another process made. The lab outlives the object.
  static Result<Lab> attach(const std::string& name);

  Lab(Lab&&) noexcept;
  Lab& operator=(Lab&&) noexcept;
  ~Lab();

  const LabOptions& options() const;
  const std::string& name() const { return options().name; }
  int hosts() const { return options().hosts; }
  int aggregators() const { return options().aggregators; }

  /// The names of namespaces as `ip netns` knows them (inside the keeper for a temporary lab):
  /// "tutti-NAME-h0", "tutti-NAME-sw".
  std::string host_namespace(int host) const;
  std::string switch_namespace() const;

  /// "10.77.0.1" for host 0; "fd77::1" if the lab has IPv6.
  std::string address(int host) const;
  std::string address6(int host) const;

  /// "tutti-NAME-a0" and "10.77.0.251" for the first aggregator place.
  std::string aggregator_namespace(int aggregator) const;
  std::string aggregator_address(int aggregator) const;

  /// The place of a host's programs; valid as long as the lab.
  Result<launch::NetNamespace> host_place(int host) const;

  /// Completes a request with the place and the name of a host.
  Result<launch::SpawnRequest> request_on(int host, launch::SpawnRequest request) const;

  /// Starts a program on a host. The caller reaps it.
  Result<pid_t> spawn_on(int host, launch::SpawnRequest request) const;

  /// Starts a program at an aggregator place. The caller reaps it.
  Result<pid_t> spawn_at_aggregator(int aggregator, launch::SpawnRequest request) const;

  /// Forks. The child runs the body on the host and exits with its result; the caller reaps it.
  Result<pid_t> fork_on(int host, const std::function<int()>& body) const;

  /// A socket of a host's network, for use in this process.
  Result<device::Descriptor> socket_on(int host, int domain, int type, int protocol = 0) const;

  /// Runs a network tool (`ip`, `tc`, `ss`) to its end on a host, or on the switch.
  Result<launch::ProgramOutput> tool_on(int host, const std::vector<std::string>& arguments) const;
  Result<launch::ProgramOutput> tool_on_switch(const std::vector<std::string>& arguments) const;

  /// The counters of every link, by host.
  Result<std::vector<PortBytes>> port_bytes() const;

  /// Replaces all impairments atomically, between two packets.
  Status set_impairments(const Impairments& impairments);
  /// Replaces the independent and the shared loss and keeps the other impairments.
  Status set_loss(double percent, double shared_percent = 0);

  /// Disconnects a host's link, like a pulled cable, and connects it again.
  Status link_down(int host);
  Status link_up(int host);

  /// Ends the processes inside and removes the lab. The object is empty afterwards.
  Status tear_down();

 private:
  struct Parts;
  explicit Lab(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

/// Removes the remains of labs whose owner was killed and returns their names. create() and the
/// commands call it first.
std::vector<std::string> remove_abandoned_labs();

/// Removes a persistent lab, even a damaged one.
Status remove_lab(const std::string& name);

}  // namespace tutti::lab
