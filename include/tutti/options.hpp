// The options with which a communicator is created.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/job_key.hpp"
#include "tutti/units.hpp"

namespace tutti {

namespace device {
class Device;
}

/// Options of Communicator::create. If a field marked (equal on all ranks) has different values,
/// create() fails with an error that names the field.
struct CommunicatorOptions {
  /// Device that moves the bytes: "ip" (UDP), "host" (shared memory of one host) or "auto". "auto"
  /// selects "host" if all ranks share a host and no option or variable asks for the network, and
  /// "ip" otherwise. If empty, TUTTI_DEVICE is used; the default is "auto". (equal on all ranks)
  std::string device_name;
  /// Name or IP address of the network interface. If empty, TUTTI_INTERFACE is used; if that is not
  /// set either, the library chooses the interface.
  std::string interface;
  bool ipv6 = false;  ///< whether IPv6 is used instead of IPv4 (equal on all ranks)
  /// Number of multicast subgroups; each carries a part of every block. (equal on all ranks)
  std::uint32_t subgroups = 1;
  /// Number of receive workers, at most one per subgroup; duplicates of the communicator share
  /// them. If 0, TUTTI_RECEIVE_WORKERS is used; if that is not set either, there are no receive
  /// workers, and the thread that runs the engine receives. [Khalilov24] 4.3
  std::uint32_t receive_workers = 0;
  /// Number of ranks that multicast at the same time in an Allgather; 0: the library learns it from
  /// measurements. [Khalilov24] 4.1 (equal on all ranks)
  std::uint32_t chains = 0;
  /// How the device `ip` multicasts a chunk: as one datagram ("ud") or as one message of several
  /// datagrams ("uc"); with "none" it multicasts nothing. If empty, TUTTI_MULTICAST is used; the
  /// default is "ud". (equal on all ranks)
  std::string multicast;
  /// Whether create() fails if the network does not pass multicast between all ranks. If false,
  /// create() succeeds on such a network, and the collectives use connections only.
  /// TUTTI_REQUIRE_MULTICAST=1 has the same effect as true. (equal on all ranks)
  bool require_multicast = false;
  /// Hop limit (TTL in IPv4) of multicast datagrams, 1 to 255: they cross at most
  /// `multicast_hops` - 1 routers. Above 1, IPv6 groups have site-local instead of link-local
  /// scope. If 0, TUTTI_MULTICAST_HOPS is used; the default is 1, which keeps multicast inside the
  /// subnet. (equal on all ranks)
  std::uint32_t multicast_hops = 0;
  /// Traffic class of the datagrams of the device `ip`: the differentiated services code point, 0
  /// to 63 (RFC 2474), by which switches choose a queue. A number from 0 to 15 may follow after a
  /// slash, as in "46/5": the priority in the queues of this host (SO_PRIORITY); values above 6
  /// need CAP_NET_ADMIN. Three values separated by commas, as in "8,0,46", are the classes of calls
  /// of low, normal and high priority. If empty, TUTTI_TRAFFIC_CLASS is used; if that is not set
  /// either, the kernel's default applies.
  std::string traffic_class;
  /// At most this many reliable connections are open at the same time; 2 or more. Only the device
  /// `ip` uses this option. If a further connection is needed, an idle one is closed. After a
  /// failure of the communicator the limit does not apply. Use this option in jobs of many ranks in
  /// which each rank exchanges data with few peers at a time. If 0, TUTTI_MAX_CONNECTIONS is used;
  /// if that is not set either, there is no limit. The limit follows the dynamically connected
  /// transport of [OFED-AT].
  std::uint32_t max_connections = 0;
  /// Hierarchy of a job with several ranks on each of several hosts; used with the device "auto"
  /// only. With "leaders" one rank of each host communicates with other hosts; with "leaders=N", N
  /// ranks of each host do. With "groups" every rank exchanges long Allgather blocks with the ranks
  /// of equal local rank. "flat" turns the hierarchy off. If empty, TUTTI_HIERARCHY is used; the
  /// default is "leaders". (equal on all ranks)
  std::string hierarchy;
  /// Payload of a multicast chunk, in bytes. If 0, the payload is as long as the smallest MTU
  /// allows or, if `multicast` is "uc", as long as the longest UC message. (equal on all
  /// ranks)
  std::uint32_t chunk_bytes = 0;
  /// Payload of one datagram of a "uc" message, in bytes; 0: as much as the MTU allows.
  std::uint32_t segment_bytes = 0;
  /// Credit window: all senders together may have at most this many bytes of multicast data
  /// outstanding. Data is outstanding from its send until the senders know that every receiver has
  /// consumed it. If 0, the window is 0.4 of the smallest receive buffer that a kernel granted.
  /// (equal on all ranks)
  std::uint64_t window_bytes = 0;
  /// Broadcasts of up to this size in bytes, and of up to half of the window, are done at the root
  /// as soon as the root has sent the data, among up to 64 ranks; 0 turns this off. The root
  /// retains a copy for retransmission until every rank has acknowledged the data. Closing the
  /// communicator waits for these ACKs. Only the device `ip` uses this option. (equal on all ranks)
  union {
    std::uint64_t retain_bytes = 256 * 1024;
    /// Old name of retain_bytes, valid for one more release.
    [[deprecated("use retain_bytes")]] std::uint64_t keep_bytes;
  };
  /// Whether every datagram carries a keyed tag; if false, it carries a CRC-32C instead. (equal on
  /// all ranks)
  bool authenticate = true;
  /// Whether a ready barrier begins every collective. (equal on all ranks)
  bool always_barrier = false;
  /// Peer timeout. While this rank waits for a peer, it pings the peer whenever it has received
  /// nothing from the peer for a fifth of this time. A peer is declared lost if it sends nothing
  /// for the whole time after a ping, or after another packet that it must acknowledge.
  Nanoseconds peer_timeout{3'000'000'000};
  Nanoseconds create_timeout{30'000'000'000};  ///< time within which all ranks must call create()
  /// Addresses "host:port" of the aggregators that reduce for this communicator
  /// (docs/aggregator.md). If the list is empty, TUTTI_AGGREGATORS is used; if that is not set
  /// either, no aggregators are used. The list of rank 0 applies to all ranks, and create() fails
  /// if only some ranks give a list.
  std::vector<std::string> aggregators;
  /// Whether create() goes on without aggregators if one of them cannot be used; the ranks then
  /// reduce by themselves. If false, create() fails in this case. The value of rank 0 applies to
  /// all ranks. TUTTI_AGGREGATOR_FALLBACK=1 has the same effect as true.
  bool aggregator_fallback = false;
  /// The job key; create() fails unless either all ranks have the same key or no rank has a key. If
  /// this option is not set, the key comes from the file that TUTTI_JOB_KEY_FILE names; if that is
  /// not set either, from the unique id or the launcher. A duplicate ignores this option, because
  /// its key derives from the secret of the original communicator.
  std::optional<JobKey> job_key{};
  /// Device object that replaces the one named by device_name; used by the simulator and by tests.
  std::shared_ptr<device::Device> device;
};

}  // namespace tutti
