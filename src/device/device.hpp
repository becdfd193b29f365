// The device interface, modelled on verbs: hardware, sockets and the simulator implement it alike.
//
// A Device opens Endpoints. An Endpoint is one rank's presence in one communicator: reliable
// connections (RC) to every peer, one unreliable multicast queue pair (UD or UC) per subgroup, and
// the memory regions that peers may read and write. A device announces its capabilities; the layer
// above emulates a missing capability, or refuses the call with an error.
//
// No function blocks or reads a clock: the caller passes `now`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/masked_atomics.hpp"
#include "device/priorities_in_use.hpp"
#include "device/slot_exchange.hpp"
#include "tutti/priority.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device {

/// The capabilities of devices, one bit each.
enum class Capability : std::uint32_t {
  /// Multicast of datagrams, which may be lost or arrive in any order ([Khalilov24] 3.2).
  multicast_ud = 1u << 0,
  multicast_uc = 1u << 1,        ///< multi-packet multicast into the user buffer ([Khalilov24] 5.2)
  reliable_send = 1u << 2,       ///< RC SEND
  write = 1u << 3,               ///< RC WRITE
  write_immediate = 1u << 4,     ///< RC WRITE that raises a completion at the peer
  read = 1u << 5,                ///< RC READ, served without the peer's application
  masked_atomics = 1u << 6,      ///< masked compare-and-swap and fetch-and-add [OFED-AT]
  big_endian_atomics = 1u << 7,  ///< the old values of atomics arrive big-endian [OFED-AT]
  shared_connections = 1u << 8,  ///< XRC [OFED-AT]
  dynamic_connections = 1u << 9,  ///< dynamically connected transport [OFED-AT]
  tag_matching = 1u << 10,        ///< matches arriving messages with receives [OFED-AT]
  wait_enable = 1u << 11,         ///< queues with wait and enable entries ([Inozemtsev12] 3)
  /// The network never drops packets for lack of buffers, so no credits are used.
  lossless = 1u << 12,
  /// The send queue fills only because receivers are slow; the link itself never fills it.
  backpressure = 1u << 13,
  every_chunk_arrives = 1u << 14,  ///< a chunk accepted for multicast is never lost or damaged
};

/// The capabilities of a device and their limits.
struct Capabilities {
  std::uint32_t bits = 0;
  std::uint32_t max_chunk_bytes = 0;  ///< payload bytes of the largest datagram or UC message
  /// Width of an immediate in bits. An immediate contains an epoch, and the number of a match slot
  /// or of a segment.
  std::uint32_t immediate_bits = 0;
  /// Receive window of a multicast queue pair, in payload bytes.
  std::uint64_t receive_window_bytes = 0;
  std::uint32_t max_send_batch = 0;  ///< one doorbell posts at most this many chunks

  bool has(Capability capability) const {
    return (bits & static_cast<std::uint32_t>(capability)) != 0;
  }
};

/// A run of consecutive chunks of one block, posted with one doorbell ([Khalilov24] 5.1).
struct ChunkRun {
  std::uint32_t epoch = 0;
  std::uint32_t first_psn = 0;
  std::span<const std::byte> data{};  ///< payload; must not change until the device has read it
  std::uint32_t chunk_bytes = 0;      ///< bytes of every chunk but the last, which may be shorter
  /// The only rank that needs the data, or kNoRank if all ranks need it. Other ranks may receive
  /// the data, too.
  Rank to = kNoRank;
  Priority priority = Priority::normal;
};

/// A chunk that has arrived, either in staging or, by UC, at the address that the resolver chose.
/// Its bytes are unverified until `copy_and_verify`.
struct ReceivedChunk {
  std::uint32_t epoch = 0;
  std::uint32_t psn = 0;
  Rank source = kNoRank;
  std::span<const std::byte> payload;
  const std::byte* header = nullptr;  ///< header of the chunk, in a buffer that the device owns
};

/// The header of an arriving UC message, not verified yet.
struct MessageHead {
  std::uint32_t epoch = 0;
  std::uint32_t psn = 0;
  Rank source = kNoRank;
  std::size_t bytes = 0;
};

/// The destination of a message that a UC queue pair places by itself ([Khalilov24] 5.2).
struct Placement {
  enum class Where : std::uint8_t {
    nowhere,  ///< no destination: the message has arrived before or is not needed
    /// Staging memory of the device. It is used if the place of a message in the user's buffer is
    /// unknown, because this rank has not begun the collective or the header does not fit it.
    staging,
    buffer,  ///< memory of the user, at the address `at`
  };
  Where where = Where::nowhere;
  std::byte* at = nullptr;
};

/// Decides the destination of UC messages. Until the `poll` that called `landing` returns, the
/// queue pair may write damaged or forged bytes to the destination. The destination must therefore
/// contain no verified bytes, and no other thread may write to it.
class PlacementResolver {
 public:
  virtual ~PlacementResolver() = default;
  /// Returns the destination of a message. `begins` is true for the first fragment, and false if a
  /// later `poll` finds more fragments of the message and asks again.
  virtual Placement landing(const MessageHead& message, bool begins) = 0;
};

/// An unreliable queue pair attached to one multicast group; used by one thread at a time. After
/// Endpoint::use_receive_workers a second thread may use the receive side (poll, copy_and_verify,
/// release, next_arrival).
class MulticastQueuePair {
 public:
  virtual ~MulticastQueuePair() = default;

  /// Posts the chunks of `run` in order and returns the number accepted, which is 0 if the send
  /// queue is full. A chunk is accepted whole or not at all.
  virtual Result<std::uint32_t> post(const ChunkRun& run) = 0;
  /// Number of payload bytes that were accepted by `post` and have not left this host yet.
  virtual std::uint64_t unsent_bytes() = 0;
  /// True while the device may still read posted data. As long as it is true, the caller must not
  /// change the posted buffers.
  virtual bool reads_posted() { return unsent_bytes() > 0; }

  /// Fills `chunks` with arrived chunks and returns their number. The chunks stay valid until
  /// `release`.
  virtual std::size_t poll(std::span<ReceivedChunk> chunks) = 0;
  /// Copies a chunk's payload to `destination` (payload.size() bytes) and verifies it in the same
  /// pass. Returns false if the chunk is foreign or damaged; the content of `destination` is then
  /// undefined, and the chunk counts as never received. If `destination` is null or the payload's
  /// own address, the chunk is only verified.
  virtual bool copy_and_verify(const ReceivedChunk& chunk, std::byte* destination) = 0;
  /// Gives the staging memory of all chunks of the last `poll` back to the receive queue.
  virtual void release() = 0;

  /// Sets the resolver that a UC queue pair asks for the destination of messages; `resolver` must
  /// stay valid while it is set. Returns false if this queue pair never asks a resolver, because it
  /// does not place messages itself.
  virtual bool set_resolver(PlacementResolver* resolver) {
    (void)resolver;
    return false;
  }

  /// Sets the present time for devices that simulate delays. Returns the time at which `poll` must
  /// be called even if nothing arrives.
  virtual Instant next_arrival(Instant now) {
    (void)now;
    return kNever;
  }
  /// A file descriptor that is readable while `poll` would return something; -1 if the device has
  /// no such descriptor.
  virtual int receive_descriptor() const { return -1; }

  /// True while other arrivals than chunks wait for the owner of the endpoint.
  virtual bool arrivals_wait() const { return false; }

  /// Sends one membership probe to the group, padded to a datagram of `bytes` bytes, which must be
  /// one of the endpoint's `probe_sizes`. If `bytes` is 0, the probe has no padding.
  virtual Status post_probe(std::uint32_t attempt, std::uint32_t bytes) = 0;
};

/// The destination that a MessageMatcher has chosen for a message.
struct MessagePlace {
  std::uint64_t token = 0;  ///< number chosen by the matcher, returned in the completion
  std::size_t skip = 0;     ///< number of bytes at the start of the message that are not stored
  /// Memory for the bytes after the first `skip` bytes. If the memory is too short, the last bytes
  /// of the message are dropped.
  std::span<std::byte> memory{};

  /// Copies `part`, the bytes of the message from `offset` on, to their place in `memory`.
  void store(std::uint64_t offset, std::span<const std::byte> part) const {
    const std::uint64_t first = std::max<std::uint64_t>(offset, skip);
    const std::uint64_t last = std::min<std::uint64_t>(offset + part.size(), skip + memory.size());
    if (first >= last) return;
    std::memcpy(memory.data() + (first - skip), part.data() + (first - offset), last - first);
  }
};

/// Matches each message with a receive of the program when its first bytes arrive, so that the
/// device stores the message directly at its destination (tag matching, [OFED-AT]).
class MessageMatcher {
 public:
  virtual ~MessageMatcher() = default;
  /// Returns the destination of a message. If it returns nothing, the device delivers the message
  /// as the payload of a `receive` completion. Called once for each message, in the order of
  /// arrival. `first` is the first part of the message, and `bytes` the length of the whole
  /// message.
  virtual std::optional<MessagePlace> match(Rank source, std::span<const std::byte> first,
                                            std::size_t bytes) = 0;
};

/// The key by which peers may read or write a memory region.
struct MemoryKey {
  std::uint64_t key = 0;
};

enum class Opcode : std::uint8_t {
  send,   ///< two-sided message of up to Endpoint::max_message_bytes bytes
  write,  ///< one-sided write
  /// One-sided write that raises a `receive` completion, with its immediate, at the peer.
  write_immediate,
  read,          ///< one-sided read
  compare_swap,  ///< masked compare-and-swap of a word of the peer
  fetch_add,     ///< masked fetch-and-add to a word of the peer
  receive,       ///< completion only: a message or an immediate arrived
  /// Completion only: a whole message is stored at the destination that the matcher chose. The
  /// work_id of the completion is the token of that destination (MessagePlace).
  matched,
  /// Completion only: a probe from `peer` arrived. The immediate of the completion is the subgroup
  /// through which the probe arrived, or kUnicast.
  probe,
  failure,  ///< completion only: the connection to `peer` is lost permanently
};

/// The immediate of a probe that arrived by unicast.
inline constexpr std::uint64_t kUnicast = UINT64_MAX;

/// A work request for the reliable connection to one peer. A connection executes requests in order,
/// except that a READ may be executed and complete before earlier SENDs, and that a WRITE may be
/// executed before an earlier READ or atomic, and an atomic before an earlier READ. A caller for
/// which this order matters awaits the completion of the READ or atomic before it posts the later
/// request. An atomic is executed once, even if its frames are retransmitted; the target of an
/// atomic is an aligned 8-byte word in the peer's memory.
struct WorkRequest {
  Opcode opcode = Opcode::send;
  Rank peer = kNoRank;
  std::uint64_t work_id = 0;  ///< number chosen by the caller, returned in the completion
  /// The data to send or write. For a READ, the memory that receives the data; for an atomic, the 8
  /// bytes that receive the old value. The device uses this memory until the completion.
  std::span<std::byte> local{};
  MemoryKey remote_key{};           ///< key of the peer's region; one-sided work only
  std::uint64_t remote_offset = 0;  ///< offset in the peer's region, in bytes
  std::uint64_t immediate = 0;      ///< immediate delivered to the peer; write_immediate only
  AtomicOperands atomic{};
  /// If false, a successful request raises no completion, unless it is a READ or an atomic.
  bool signaled = true;
  Priority priority = Priority::normal;
};

/// The rank at fault when a connection fails.
enum class Blame : std::uint8_t {
  peer,
  either,  ///< this rank or the peer: no other peer answered, so this rank may be cut off
  self,    ///< this rank, which the peer has declared lost
};

/// Reports the end of a work request, the arrival of a message, immediate or probe, or the failure
/// of a connection.
struct Completion {
  Opcode opcode = Opcode::send;
  Code code = Code::ok;
  Rank peer = kNoRank;
  std::uint64_t work_id = 0;
  std::uint64_t immediate = 0;
  std::span<const std::byte> payload{};  ///< message of a `receive`, valid until the next poll
  /// Length in bytes of a lost packet, if the code is Code::peer_failed because the path between
  /// this rank and `peer` loses long packets. Otherwise 0.
  std::uint32_t undelivered_bytes = 0;
  std::uint32_t probe_bytes = 0;  ///< size in bytes of the datagram of a `probe`
  /// The rank at fault, if the code is Code::peer_failed and `undelivered_bytes` is 0.
  Blame blame = Blame::peer;
};

/// The device counters of one endpoint, cumulative.
struct EndpointCounters {
  std::uint64_t multicast_datagrams_sent = 0;
  std::uint64_t multicast_bytes_sent = 0;  ///< payload bytes multicast
  std::uint64_t multicast_datagrams_received = 0;
  std::uint64_t multicast_bytes_received = 0;
  std::uint64_t slot_datagrams_sent = 0;  ///< datagrams that carried slot exchange entries
  std::uint64_t slot_datagrams_received = 0;
  std::uint64_t reliable_frames_sent = 0;
  std::uint64_t reliable_frames_resent = 0;
  std::uint64_t reliable_timeouts = 0;  ///< retransmission timeouts that have expired
  /// Frames sent by multicast, with or without a unicast copy, because the peer had not answered
  /// for long or because the kernel held back unicast datagrams to the peer.
  std::uint64_t reliable_frames_multicast = 0;
  /// Tail probes: frames sent a second time because no later frame would reveal their loss.
  std::uint64_t reliable_tail_probes = 0;
  std::uint64_t reliable_frames_received = 0;
  std::uint64_t reliable_frames_duplicate = 0;
  std::uint64_t reliable_bytes_sent = 0;
  /// Number of polls, summed over connections, in which a connection held frames back for data of
  /// a higher egress priority.
  std::uint64_t reliable_rounds_held_back = 0;
  /// Number of posts of which one or more chunks were held back for data of a higher egress
  /// priority.
  std::uint64_t multicast_posts_held_back = 0;
  std::uint64_t read_bytes_served = 0;
  /// Bytes that this rank copied from the memory of peers without their help.
  std::uint64_t read_bytes_direct = 0;
  std::uint64_t atomics_served = 0;    ///< atomics of peers that this endpoint executed
  std::uint64_t connections_open = 0;  ///< reliable connections held now; not cumulative
  std::uint64_t connections_made = 0;
  std::uint64_t connections_closed = 0;      ///< connections closed because idle, or to make room
  std::uint64_t connections_high_water = 0;  ///< largest number of connections held at a time
  /// Received frames dropped because there was no connection to their sender, and no other
  /// connection could be closed to make room for one.
  std::uint64_t frames_without_connection = 0;
  /// Datagrams and frames rejected: malformed, wrong version, kind, communicator or rank, or not
  /// from the host of the rank that they name. A kind that the queue pair does not take is wrong.
  std::uint64_t rejected_foreign = 0;
  std::uint64_t rejected_integrity = 0;  ///< datagrams rejected: wrong tag or CRC
  /// Datagrams rejected: received before, or too old to tell whether they were received before.
  std::uint64_t rejected_replayed = 0;
  std::uint64_t send_calls = 0;
  std::uint64_t receive_calls = 0;
  std::uint64_t send_queue_full = 0;
  std::uint64_t uc_messages_completed = 0;  ///< messages whose fragments all arrived in order
  std::uint64_t uc_messages_gapped = 0;     ///< messages with a missing or reordered fragment
  std::uint64_t uc_segments_received = 0;
  /// Fragments that the kernel wrote directly to their destination.
  std::uint64_t uc_segments_direct = 0;
  /// Datagrams that the kernel dropped because a receive queue was full. Also counts probes and
  /// frames that arrived by multicast and that the endpoint dropped because its queue for them was
  /// full.
  std::uint64_t kernel_drops = 0;
};

/// One rank's presence in one communicator. Used by one thread at a time, except that each
/// multicast queue pair may have a thread of its own.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual const Capabilities& capabilities() const = 0;
  /// A text for the user: which path the data takes and how the data is protected.
  virtual std::string description() const { return "not described"; }
  /// The address by which peers reach this endpoint, as opaque bytes for the bootstrap.
  virtual std::vector<std::byte> address() const = 0;
  /// Takes the secret from which the endpoint derives its tag keys; must precede `connect`. Without
  /// this call, datagrams carry a CRC instead of a keyed tag; a device without datagrams ignores
  /// the secret.
  virtual Status use_secret(std::span<const std::byte> /*secret*/) { return {}; }
  /// Takes the addresses of all ranks, this one included, in rank order. Must precede any post.
  virtual Status connect(std::span<const std::vector<std::byte>> addresses) = 0;

  virtual std::uint32_t subgroup_count() const = 0;
  virtual MulticastQueuePair& multicast(std::uint32_t subgroup) = 0;
  /// If `on`, other threads run the receive sides of the multicast queue pairs, and each waits on a
  /// `receive_descriptor`. `wait_descriptor` and `next_deadline` then exclude the receive sides,
  /// and `counters` may be called concurrently. Fails with Code::unsupported if the device cannot
  /// do this.
  virtual Status use_receive_workers(bool on) {
    return on ? Status(Code::unsupported,
                       "receive workers cannot receive from this device: use 0 receive workers")
              : Status();
  }

  /// Leaves the multicast groups and joins them again, now or in a later `poll`, so that a switch
  /// that has dropped this rank's membership learns it anew. Fails with Code::unsupported if the
  /// device has no memberships.
  virtual Status rejoin_groups(Instant /*now*/) {
    return Status(Code::unsupported,
                  "this device has no multicast groups to rejoin: use the device 'ip'");
  }

  /// The slot exchange of the communicator; null at all ranks if the device has none.
  virtual SlotExchange* slot_exchange() { return nullptr; }

  /// Allows peers to read and write the memory until deregister_memory().
  virtual Result<MemoryKey> register_memory(std::span<std::byte> memory) = 0;
  virtual void deregister_memory(MemoryKey key) = 0;

  /// Sets the matcher of messages, which must outlive the endpoint's last poll. A device without
  /// Capability::tag_matching ignores it and delivers each message by a `receive`.
  virtual void use_matcher(MessageMatcher* /*matcher*/) {}

  virtual std::size_t max_message_bytes() const = 0;
  /// Posts work to a peer. The returned Status reports work refused at once (bad rank, message too
  /// long, connection lost); the completion reports a later failure.
  virtual Status post(Instant now, const WorkRequest& request) = 0;
  /// Moves data, serves the one-sided work of peers, fills `completions` and returns their number.
  virtual std::size_t poll(Instant now, std::span<Completion> completions) = 0;
  /// The second poll in one round of the engine, for work posted since the first poll. A device
  /// that needs a system call to find arrivals does not look for arrivals here.
  virtual std::size_t poll_posted(Instant now, std::span<Completion> completions) {
    return poll(now, completions);
  }
  /// If `on`, pings the peer while it is silent, and reports a `failure` completion once it has
  /// been silent for the endpoint's peer timeout.
  virtual void watch(Rank peer, bool on) = 0;
  /// States that a peer needs nothing more from this rank and may be gone, so that the peer's
  /// silence is no failure. `quiet` then no longer waits for the peer's ACKs of SENDs. READs,
  /// WRITEs and atomics that the peer does not answer complete with Code::aborted.
  virtual void release_peer(Rank /*peer*/) {}
  /// Sends a watched peer a frame of full length, which reveals a path that loses long packets
  /// (`Completion::undelivered_bytes`). Has no effect on a device that never loses long packets.
  virtual void test_path(Rank /*peer*/) {}

  /// The sizes in bytes of the datagrams with which the membership check tests the paths,
  /// descending. The first is the size of this endpoint's largest datagram; a device to which sizes
  /// do not matter returns only 0.
  virtual std::vector<std::uint32_t> probe_sizes() const { return {0}; }
  /// Sends a peer a probe by unicast, in a datagram of one of the `probe_sizes`.
  virtual void probe_path(Rank /*peer*/, std::uint32_t /*bytes*/) {}
  /// Limits the size of all datagrams to `bytes` bytes, which must be one of the `probe_sizes` and
  /// equal at all ranks. Must precede the first chunk. Changes the sizes in `capabilities`.
  virtual void limit_datagrams(std::uint32_t /*bytes*/) {}

  /// Gives up all posted work after the communicator has failed, so that callers get their buffers
  /// back at once and later work does not wait for the abandoned work. The abandoned work has no
  /// further effect at either rank and may complete with Code::aborted. From now on the number of
  /// connections has no limit, so that the notices of the failure reach all ranks.
  virtual void abandon() {}
  /// True if this rank's posted work waits for no peer and no peer waits for this rank, so that
  /// closing is safe.
  virtual bool quiet() const = 0;

  /// The time at which `poll` must be called even if nothing arrives; kNever if no timer runs.
  virtual Instant next_deadline() const = 0;
  /// A file descriptor that is readable while `poll` would return something; -1 in virtual time.
  virtual int wait_descriptor() const = 0;
  /// Must be called before the owner sleeps on `wait_descriptor`, so that the descriptor reports
  /// every arrival until the next `poll`. Returns false if `poll` would already return something.
  virtual bool prepare_wait() { return true; }
  /// Makes `wait_descriptor` also report that a full send queue has room again.
  virtual void notify_when_sendable(bool on) = 0;

  virtual EndpointCounters counters() const = 0;

  /// The priorities in use at the network interface of this endpoint, or null if the device has no
  /// priorities. The engine adds the priorities of its calls.
  virtual PrioritiesInUse* priorities() { return nullptr; }
};

/// Random bytes that choose the multicast groups and ports; every observer of the packets can
/// learn them.
using GroupSeed = std::array<std::byte, 16>;

/// The options of an endpoint.
struct EndpointOptions {
  Rank rank = kNoRank;
  std::uint32_t size = 0;
  std::uint16_t communicator = 0;
  std::uint32_t subgroups = 1;
  GroupSeed group_seed{};         ///< seed of groups and ports; equal on all ranks
  std::vector<Rank> local_ranks;  ///< ranks on this host, this rank included
  Nanoseconds peer_timeout{};     ///< time without an answer after which a watched peer is lost
  /// True if the caller converts the old values of atomics by `old_value` (atomics.hpp). Otherwise
  /// an endpoint with Capability::big_endian_atomics refuses atomics.
  bool accept_big_endian_atomics = false;
  /// The endpoint holds at most this many reliable connections at a time, until `Endpoint::abandon`
  /// (Capability::dynamic_connections). 0 sets no limit: the endpoint then holds one connection for
  /// each peer with which it has communicated.
  std::uint32_t max_connections = 0;
};

/// One way to move bytes, such as UDP or shared memory; it opens the endpoints. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  virtual Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) = 0;
};

}  // namespace tutti::device
