// A lab: hosts as network namespaces, joined by a bridge that forwards multicast to members only.
// For tests, benches and `tutti lab`. Link rates, loss and the like are the kernel's, not
// simulated.
//
// A temporary lab lives in private namespaces of a keeper process and works for a plain user (by
// user namespaces); nothing of it can outlive its owner. A persistent one, for root, has named
// namespaces that `ip netns exec` finds.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lab/descriptor.hpp"
#include "lab/options.hpp"
#include "lab/process.hpp"
#include "tutti/status.hpp"

namespace tutti::lab {

/// What one host's link has carried, as the host sees it: tx is its uplink. Bytes count Ethernet
/// frames without their checksum, at the switch's port.
struct PortBytes {
  int host = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t tx_packets = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t rx_packets = 0;
  std::uint64_t queue_drops = 0;  ///< lost because the queue to this host was full (shaped links)

  /// Counts since an earlier reading.
  PortBytes since(const PortBytes& earlier) const;
};

/// What this machine can do. Each Status is ok, or says what is missing and the remedy.
struct LabSupport {
  Status temporary;   ///< a lab that ends with its owner: everything below rests on it
  Status persistent;  ///< one that stays after `tutti lab up`
  Status shaping;     ///< link rates
  Status offload;     ///< switching segmentation off, and with it per-datagram impairments
  Status loss;        ///< loss, shared loss, burst loss, corruption
  Status detour;      ///< duplication and reordering
};

/// Tries everything once in namespaces of its own (tens of milliseconds).
LabSupport lab_support();

/// One lab. Movable; the destructor takes down what is not persistent. Not for use by two threads
/// at once.
class Lab {
 public:
  /// Builds a lab. On failure nothing is left behind.
  static Result<Lab> create(const LabOptions& options);

  /// The lab of this name that another process made; it stays when the object goes.
  static Result<Lab> attach(const std::string& name);

  Lab(Lab&&) noexcept;
  Lab& operator=(Lab&&) noexcept;
  ~Lab();

  const LabOptions& options() const;
  const std::string& name() const { return options().name; }
  int hosts() const { return options().hosts; }
  int aggregators() const { return options().aggregators; }

  /// Names as `ip netns` knows them (inside the keeper for a temporary lab): "tutti-NAME-h0",
  /// "tutti-NAME-sw".
  std::string host_namespace(int host) const;
  std::string switch_namespace() const;

  /// "10.77.0.1" for host 0; "fd77::1" where the lab has IPv6.
  std::string address(int host) const;
  std::string address6(int host) const;

  /// "tutti-NAME-a0" and "10.77.0.251" for the first aggregator's place.
  std::string aggregator_namespace(int aggregator) const;
  std::string aggregator_address(int aggregator) const;

  /// Where a host's programs enter; valid as long as the lab.
  Result<NetNamespace> host_place(int host) const;

  /// Starts a program on a host, with the host's place and name filled in. The caller reaps it.
  Result<pid_t> spawn_on(int host, SpawnRequest request) const;

  /// The same at an aggregator's place.
  Result<pid_t> spawn_at_aggregator(int aggregator, SpawnRequest request) const;

  /// Forks; the child runs the body on the host and exits with its result. The caller reaps it.
  Result<pid_t> fork_on(int host, const std::function<int()>& body) const;

  /// A socket that sends and receives on a host's network, for use in this process.
  Result<Descriptor> socket_on(int host, int domain, int type, int protocol = 0) const;

  /// Runs a network tool (`ip`, `tc`, `ss`) to its end on a host, or on the switch.
  Result<ProgramOutput> tool_on(int host, const std::vector<std::string>& arguments) const;
  Result<ProgramOutput> tool_on_switch(const std::vector<std::string>& arguments) const;

  /// Every link's counters, by host.
  Result<std::vector<PortBytes>> port_bytes() const;

  /// Replaces all impairments, in one step between two packets.
  Status set_impairments(const Impairments& impairments);
  /// Replaces the independent and the shared loss, and leaves the other impairments.
  Status set_loss(double percent, double shared_percent = 0);

  /// Cuts a host's link, as a pulled cable does; and connects it again.
  Status link_down(int host);
  Status link_up(int host);

  /// Ends the processes inside and removes everything. The object is empty afterwards.
  Status tear_down();

 private:
  struct Parts;
  explicit Lab(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

/// Removes the remains of labs whose owner was killed, and returns their names. create() and the
/// commands do this first.
std::vector<std::string> remove_abandoned_labs();

/// Removes a persistent lab, also a damaged one.
Status remove_lab(const std::string& name);

}  // namespace tutti::lab
