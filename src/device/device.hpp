// What moves bytes: the verbs model, so that hardware, sockets and the simulator speak one
// language.
//
// A Device opens Endpoints. An Endpoint is one rank's presence in one communicator: reliable
// connections (RC) to every peer, one unreliable multicast queue pair (UD or UC) per subgroup, and
// the memory regions that peers may read and write. A device states what it can do; what it lacks
// is refused with an error or emulated by the layer above, never silently different.
//
// Nothing here blocks or reads a clock: whoever drives an endpoint passes `now`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/slot_exchange.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device {

/// One thing a device may be able to do (rows K1-K13, C1, O1-O6).
enum class Capability : std::uint32_t {
  multicast_ud = 1u << 0,          ///< datagrams to a group; any order, may be lost (K1)
  multicast_uc = 1u << 1,          ///< multi-packet multicast writes into the user buffer (K10)
  reliable_send = 1u << 2,         ///< RC SEND
  write = 1u << 3,                 ///< RC WRITE
  write_immediate = 1u << 4,       ///< RC WRITE that raises a completion at the peer
  read = 1u << 5,                  ///< RC READ, served without the peer's application (K5)
  atomics = 1u << 6,               ///< 64-bit compare-and-swap and fetch-and-add
  masked_atomics = 1u << 7,        ///< O1, O2
  big_endian_atomics = 1u << 8,    ///< replies to atomics are big-endian (O3)
  shared_connections = 1u << 9,    ///< XRC (O4)
  dynamic_connections = 1u << 10,  ///< DC (O5)
  tag_matching = 1u << 11,         ///< O6
  wait_enable = 1u << 12,          ///< queues that hold and release entries by themselves (C1)
  lossless = 1u << 13,      ///< the network does not drop for lack of buffers: credits are off
  backpressure = 1u << 14,  ///< a full send queue tells of slow receivers, not of a slow link
  every_chunk_arrives = 1u << 15,  ///< what a multicast queue pair took is never lost or damaged
};

/// What a device can do and how much of it.
struct Capabilities {
  std::uint32_t bits = 0;
  std::uint32_t max_chunk_bytes = 0;       ///< payload of the largest datagram or message it sends
  std::uint32_t immediate_bits = 0;        ///< bits for collective id and PSN together (K1)
  std::uint64_t receive_window_bytes = 0;  ///< payload that a multicast queue pair holds posted
  std::uint32_t max_send_batch = 0;        ///< chunks that one doorbell takes

  bool has(Capability capability) const {
    return (bits & static_cast<std::uint32_t>(capability)) != 0;
  }
};

/// A run of consecutive chunks of one block: what a send worker posts with one doorbell (K1, K11).
struct ChunkRun {
  std::uint32_t epoch = 0;
  std::uint32_t first_psn = 0;
  std::span<const std::byte> data{};  ///< the caller's until it was read (`reads_posted`)
  std::uint32_t chunk_bytes = 0;  ///< all chunks are this long, but the last, which may be shorter
  Rank to = kNoRank;  ///< who alone needs them: others may get them, too; none: everybody does
};

/// A chunk that arrived, in staging or, by UC, where a guide said. Its bytes are not verified
/// before `place` says so.
struct ReceivedChunk {
  std::uint32_t epoch = 0;
  std::uint32_t psn = 0;
  Rank source = kNoRank;
  std::span<const std::byte> payload;
  const std::byte* header = nullptr;  ///< device's own, in staging
};

/// What the header of an arriving message says; nothing of it is verified.
struct MessageHead {
  std::uint32_t epoch = 0;
  std::uint32_t psn = 0;
  Rank source = kNoRank;
  std::size_t bytes = 0;
};

/// Where a message goes that a queue pair places by itself (K10).
struct Placement {
  enum class Where : std::uint8_t {
    nowhere,  ///< it is here already, or nobody waits for it: drop it
    staging,  ///< its collective has not begun here: keep it in the device's memory
    buffer,   ///< to `at`, in the user's memory
  };
  Where where = Where::nowhere;
  std::byte* at = nullptr;
};

/// Tells a UC queue pair where messages belong. A place is the queue pair's to write, with bytes
/// that may turn out damaged or forged, from the answer until the `poll` that asked has returned;
/// so the answer must never be the place of bytes that count, or that somebody else writes.
class PlacementResolver {
 public:
  virtual ~PlacementResolver() = default;
  /// `begins`: the message's first segment has come; else more of it, in a later `poll`.
  virtual Placement landing(const MessageHead& message, bool begins) = 0;
};

/// An unreliable queue pair attached to one multicast group. Used by one thread at a time; the
/// receive side (poll, place, release, next_arrival) by another than the rest after
/// Endpoint::use_receive_workers.
class MulticastQueuePair {
 public:
  virtual ~MulticastQueuePair() = default;

  /// Posts chunks, the first of `run` first. Returns how many were accepted: 0 where the send queue
  /// is full for now. No chunk is accepted in part.
  virtual Result<std::uint32_t> post(const ChunkRun& run) = 0;
  /// Payload accepted that has not left this host yet.
  virtual std::uint64_t unsent_bytes() = 0;
  /// Whether the device still reads what was posted; false: the send buffers are the user's.
  virtual bool reads_posted() { return unsent_bytes() > 0; }

  /// Fills `chunks` with arrivals and returns how many. They stay valid until `release`.
  virtual std::size_t poll(std::span<ReceivedChunk> chunks) = 0;
  /// Moves a chunk's payload to `destination` (payload.size() bytes) and verifies it in the same
  /// pass. False: not from this communicator or damaged; the destination then holds garbage and the
  /// chunk counts as never received. `destination` null, or where the payload is, verifies only.
  virtual bool place(const ReceivedChunk& chunk, std::byte* destination) = 0;
  /// Gives the staging of the chunks of the last poll back to the receive queue.
  virtual void release() = 0;

  /// Gives a queue pair that places by itself (UC, K10) its guide, which `poll` asks from now on
  /// and which outlives that. False: it does not place by itself, and `guide` is never asked.
  virtual bool set_resolver(PlacementResolver* guide) {
    (void)guide;
    return false;
  }

  /// Tells the time, by which delays are counted; returns when `poll` must be called though nothing
  /// arrives.
  virtual Instant next_arrival(Instant now) {
    (void)now;
    return kNever;
  }
  /// A descriptor that becomes readable when `poll` would find something; -1: there is none.
  virtual int receive_descriptor() const { return -1; }

  /// Sends one membership probe to the group.
  virtual Status post_probe(std::uint32_t attempt) = 0;
};

/// Memory that peers may read or write by key.
struct MemoryKey {
  std::uint64_t key = 0;
};

enum class Opcode : std::uint8_t {
  send,             ///< two-sided message of up to Endpoint::max_message_bytes
  write,            ///< one-sided write
  write_immediate,  ///< one-sided write that raises a `receive` with the immediate at the peer
  read,             ///< one-sided read
  receive,          ///< completion only: a message or an immediate arrived
  probe,            ///< completion only: a membership probe of `peer` arrived (immediate: subgroup)
  failure,          ///< completion only: the connection to `peer` is lost for good
};

/// Work for the reliable connection to one peer. Executed in order per peer.
struct WorkRequest {
  Opcode opcode = Opcode::send;
  Rank peer = kNoRank;
  std::uint64_t work_id = 0;        ///< comes back in the completion
  std::span<std::byte> local{};     ///< read from, or written to by `read`; the caller's until then
  MemoryKey remote_key{};           ///< one-sided only
  std::uint64_t remote_offset = 0;  ///< in the peer's region
  std::uint64_t immediate = 0;      ///< write_immediate only
  bool signaled = true;  ///< false: no completion on success (K11); reads always complete
};

/// The end of a work request, or an arrival.
struct Completion {
  Opcode opcode = Opcode::send;
  Code code = Code::ok;
  Rank peer = kNoRank;
  std::uint64_t work_id = 0;
  std::uint64_t immediate = 0;
  std::span<const std::byte> payload{};  ///< `receive`: the message, valid until the next poll
};

/// Device counters of one endpoint, cumulative.
struct EndpointCounters {
  std::uint64_t multicast_datagrams_sent = 0;
  std::uint64_t multicast_bytes_sent = 0;  ///< payload
  std::uint64_t multicast_datagrams_received = 0;
  std::uint64_t multicast_bytes_received = 0;
  std::uint64_t slot_datagrams_sent = 0;  ///< entries at the board, where it is no memory
  std::uint64_t slot_datagrams_received = 0;
  std::uint64_t reliable_frames_sent = 0;
  std::uint64_t reliable_frames_resent = 0;
  std::uint64_t reliable_timeouts = 0;     ///< sent again because nothing came back
  std::uint64_t reliable_tail_probes = 0;  ///< sent twice at once, on a path that loses
  std::uint64_t reliable_frames_received = 0;
  std::uint64_t reliable_frames_duplicate = 0;
  std::uint64_t reliable_bytes_sent = 0;
  std::uint64_t reliable_rounds_held_back = 0;  ///< polls in which multicast went first (K14)
  std::uint64_t read_bytes_served = 0;
  std::uint64_t rejected_foreign = 0;    ///< not ours: version, communicator, rank out of range
  std::uint64_t rejected_integrity = 0;  ///< tag or CRC did not hold
  std::uint64_t send_calls = 0;
  std::uint64_t receive_calls = 0;
  std::uint64_t send_queue_full = 0;
  std::uint64_t uc_messages_completed = 0;  ///< all segments came in order; verified by `place`
  std::uint64_t uc_messages_gapped = 0;     ///< a segment was missing or came out of order
  std::uint64_t uc_segments_received = 0;
  std::uint64_t uc_segments_direct = 0;  ///< that the kernel wrote to where they belong
  std::uint64_t kernel_drops = 0;        ///< receive queue overflow, as the kernel counts it
};

/// One rank's presence in one communicator. Used by one thread at a time, but for the multicast
/// queue pairs, each of which may be driven by a thread of its own.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual const Capabilities& capabilities() const = 0;
  /// For people: by what way the bytes go, and what guards them.
  virtual std::string description() const { return "not described"; }
  /// What the peers need to reach this endpoint: opaque bytes for the bootstrap to carry.
  virtual std::vector<std::byte> address() const = 0;
  /// Takes every rank's address (own included), by rank, before anything is posted.
  virtual Status connect(std::span<const std::vector<std::byte>> addresses) = 0;

  virtual std::uint32_t subgroup_count() const = 0;
  virtual MulticastQueuePair& multicast(std::uint32_t subgroup) = 0;
  /// On: the receive sides of the multicast queue pairs are driven by threads of their own, each
  /// waiting for its queue pairs' `receive_descriptor`; `wait_descriptor` and `next_deadline` then
  /// leave them out, and `counters` may be called meanwhile. Code::unsupported where that cannot
  /// be.
  virtual Status use_receive_workers(bool on) {
    return on ? Status(Code::unsupported, "this device has no receive side for a thread of its own")
              : Status();
  }

  /// Where short collectives meet; null: this device has none. The same at all ranks.
  virtual SlotExchange* slot_exchange() { return nullptr; }

  /// Makes memory readable and writable by the peers until it is deregistered.
  virtual Result<MemoryKey> register_memory(std::span<std::byte> memory) = 0;
  virtual void deregister_memory(MemoryKey key) = 0;

  virtual std::size_t max_message_bytes() const = 0;
  /// Posts work to a peer. Refused work (bad rank, message too long, connection lost) is the
  /// Status; what fails later is its completion.
  virtual Status post(Instant now, const WorkRequest& request) = 0;
  /// Moves bytes, serves the peers' one-sided work, and fills `completions`; returns how many.
  virtual std::size_t poll(Instant now, std::span<Completion> completions) = 0;
  /// The second poll of a round, for what was posted since the first: a device that has to make a
  /// system call to look for arrivals leaves that out.
  virtual std::size_t poll_posted(Instant now, std::span<Completion> completions) {
    return poll(now, completions);
  }
  /// While on, a silent peer is asked for a sign of life and reported as a `failure` completion
  /// after the endpoint's peer timeout.
  virtual void watch(Rank peer, bool on) = 0;

  /// Lets go, at once, of all memory that posted work names and that posting did not copy: the
  /// communicator has failed, and its callers get their buffers back. Such work does nothing more,
  /// here or at the peer; it may complete with Code::aborted. Short messages still go out.
  virtual void abandon() {}
  /// Nothing that was posted waits for a peer, and no peer waits for us: closing loses nothing.
  virtual bool quiet() const = 0;

  /// When `poll` must be called even if nothing arrives; kNever where there is no such time.
  virtual Instant next_deadline() const = 0;
  /// A descriptor that becomes readable when polling would find something; -1 in virtual time.
  virtual int wait_descriptor() const = 0;
  /// Called before whoever drives sleeps on `wait_descriptor`, which fires for what comes from here
  /// on; false: there is something to poll for already. The next `poll` ends it.
  virtual bool prepare_wait() { return true; }
  /// Asks that `wait_descriptor` also fires when a full send queue has room again.
  virtual void notify_when_sendable(bool on) = 0;

  virtual EndpointCounters counters() const = 0;
};

/// What an endpoint is opened with.
struct EndpointOptions {
  Rank rank = kNoRank;
  std::uint32_t size = 0;
  std::uint16_t communicator = 0;
  std::uint32_t subgroups = 1;
  std::vector<std::byte> secret;  ///< the job's; empty: CRC instead of the keyed tag
  std::vector<std::byte>
      group_seed;                 ///< the same on all ranks: group address and ports derive from it
  std::vector<Rank> local_ranks;  ///< ranks on this host, own included
  Nanoseconds peer_timeout{};     ///< a watched peer silent for longer is lost
};

/// A way to move bytes. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  virtual Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) = 0;
};

}  // namespace tutti::device
