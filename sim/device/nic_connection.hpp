// A reliable connection between simulated NICs. Packets of one MTU carry sequence numbers; ACKs are
// cumulative and selective; a gap or a timeout causes retransmission.
//
// Work requests are executed and completed in the order posted. The class uses no fabric and no
// clock: it receives packets and instants, and returns packets and completions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/device.hpp"
#include "device/rc/memory_table.hpp"
#include "sim/device/completion_ring.hpp"
#include "sim/device/nic_packet.hpp"
#include "sim/device/nic_settings.hpp"
#include "sim/device/ring_queue.hpp"

namespace tutti::device::sim {

class SimMulticastQueuePair;

/// State that all connections of an endpoint share. Each call receives it as an argument, so that a
/// connection stays small.
struct NicShared {
  NicSettings settings{};
  Nanoseconds peer_timeout{};
  /// Whether the user of the endpoint accepts old values of atomics in big-endian order.
  bool accept_big_endian_atomics = false;
  PayloadStore* payloads = nullptr;
  /// Matches arriving messages with receives inside the NIC; null: no matching.
  MessageMatcher* matcher = nullptr;
  SimMulticastQueuePair* multicast = nullptr;  ///< queue pair of the first subgroup
  rc::MemoryTable regions{rc::MemoryTable::Keys::counted};
  CompletionRing completions{};
  EndpointCounters counters{};
  Instant joined{};  ///< time at which the endpoint last joined its multicast groups
  /// Number of packets that the reliable connections have sent, acknowledgements included.
  std::uint64_t transmissions = 0;
  /// Number of packets sent that carry only an acknowledgement.
  std::uint64_t acknowledgements_sent = 0;
  /// Used if packets carry no user data: the sum of placement_check() over all memory that the data
  /// would have filled.
  std::uint64_t placed_check = 0;
  // Datagrams from strangers: the number that the host refused, and the number that it wrongly
  // accepted.
  std::uint64_t strangers_refused = 0;
  std::uint64_t strangers_accepted = 0;
};

/// A check value of the address range from `at` to at + bytes. If two ranges are adjacent, the sum
/// of their values is the value of the joint range.
std::uint64_t placement_check(const std::byte* at, std::uint64_t bytes);

class NicConnection {
 public:
  explicit NicConnection(Rank peer) : peer_(peer) {}

  Rank peer() const { return peer_; }
  /// Queues a work request. Errors: invalid_argument (the message is too long, or the opcode cannot
  /// be posted), peer_failed (the connection has failed).
  Status post(NicShared& nic, Instant now, const WorkRequest& request);
  bool has_output(const NicShared& nic) const;
  /// Fills in the next packet to send; returns false if there is none.
  bool next_packet(NicShared& nic, Instant now, NicPacket& packet);
  /// Receives a packet of the peer and takes over the packet's reference to its payload.
  void on_packet(NicShared& nic, Instant now, const NicPacket& packet);
  void on_timer(NicShared& nic, Instant now);
  /// The next instant at which on_timer() has work to do; kNever if there is none.
  Instant next_deadline(const NicShared& nic) const;
  /// Begins or ends the watch of the peer. A silent peer that is watched is pinged, and is declared
  /// lost after the peer timeout.
  void watch(NicShared& nic, Instant now, bool on);
  /// Gives up all posted work, as Endpoint::abandon does: the NIC no longer uses its memory.
  void abandon();
  bool quiet() const {
    return works_.empty() && flights_.empty() && responses_.empty() && !acknowledge_;
  }
  bool failed() const { return failed_; }
  /// Releases all payloads.
  void clear(NicShared& nic);

 private:
  struct Work {
    Opcode opcode = Opcode::send;
    bool signaled = true;
    bool answered = false;  ///< whether the answer to a READ or atomic has arrived
    Code code = Code::ok;
    std::uint32_t unacknowledged = 0;  ///< number of unacknowledged packets
    std::uint64_t work_id = 0;
    std::span<std::byte> local;
    std::uint64_t key = 0;
    std::uint64_t offset = 0;
    std::uint64_t immediate = 0;
    AtomicOperands atomic{};
    std::uint64_t answered_bytes = 0;
    Payload* message = nullptr;  ///< the bytes of a SEND
  };
  /// A response that is owed to the peer.
  struct Response {
    NicPacketKind kind = NicPacketKind::read_response;  ///< read_response, atomic_answer, refusal
    std::uint32_t operation = 0;
    std::uint64_t key = 0;
    std::uint64_t offset = 0;
    std::uint64_t total = 0;
    std::uint64_t position = 0;
    std::uint64_t old_value = 0;
  };
  /// A packet that was sent and is not yet acknowledged.
  struct Flight {
    NicPacketKind kind = NicPacketKind::send;
    bool last = false;
    bool arrived = false;  ///< whether a selective acknowledgement has confirmed the packet
    bool lost = false;
    std::uint8_t resent = 0;
    std::uint32_t operation = 0;
    std::uint32_t length = 0;
    std::uint32_t given_up_after = 0;  ///< packets after this one that `abandon` has given up
    std::uint64_t position = 0;
    std::uint64_t key = 0;        ///< memory key of the region; used in a read_response only
    std::uint64_t offset = 0;     ///< offset in the region; used in a read_response only
    std::uint64_t old_value = 0;  ///< old value of the atomic; used in an atomic_answer only
    Instant sent{};
  };

  bool waiting() const { return !works_.empty() || !flights_.empty(); }
  bool attentive() const { return watched_ || waiting(); }
  Instant silent_since() const { return std::max(last_heard_, attentive_since_); }
  Nanoseconds ping_interval(const NicShared& nic) const { return nic.peer_timeout / 4; }
  Nanoseconds timeout(const NicShared& nic) const;
  bool may_cut(const NicShared& nic) const;
  void cut_response(const NicShared& nic, Flight& flight);
  void cut_work(const NicShared& nic, Flight& flight);
  void fill(NicShared& nic, Flight& flight, NicPacket& packet);
  void fill_work(NicShared& nic, const Flight& flight, NicPacket& packet);
  void fill_response(NicShared& nic, Flight& flight, NicPacket& packet);
  void stamp(NicPacket& packet);
  bool next_resend(NicShared& nic, Instant now, NicPacket& packet);

  void on_acknowledged(NicShared& nic, Instant now, const NicPacket& packet);
  void note_gaps(NicShared& nic, Instant now, std::uint64_t selective);
  void keep_unexpected(NicShared& nic, const NicPacket& packet);
  void run_unexpected(NicShared& nic, Instant now);
  void accept(NicShared& nic, Instant now, const NicPacket& packet);
  void accept_write(NicShared& nic, Instant now, const NicPacket& packet);
  void accept_read(NicShared& nic, const NicPacket& packet);
  void accept_atomic(NicShared& nic, const NicPacket& packet);
  void accept_answer(NicShared& nic, const NicPacket& packet);
  void accept_old_value(const NicShared& nic, const NicPacket& packet);
  void place(NicShared& nic, const NicPacket& packet, std::span<std::byte> to);
  void complete_finished(NicShared& nic, Instant now);
  void fail(NicShared& nic, Instant now);
  Work* open_work(std::uint32_t operation);

  Rank peer_;
  bool failed_ = false;
  bool watched_ = false;
  bool ping_ = false;
  bool acknowledge_ = false;
  std::uint8_t backoff_ = 0;
  std::optional<std::uint32_t> refused_operation_;  ///< the peer's WRITE that was refused last
  /// Number of the peer's WRITEs that this NIC has refused.
  std::uint32_t refused_writes_ = 0;
  /// Number of this rank's WRITEs that the peer has refused; the peer's packets state this number.
  std::uint32_t refusals_announced_ = 0;
  /// Number of refusals that have arrived for this rank's WRITEs. It is less than
  /// refusals_announced_ while refusals are in the network.
  std::uint32_t refusals_received_ = 0;

  /// Number of packets, from the expected one on, whose requests the peer has given up.
  std::uint32_t given_up_ = 0;

  RingQueue<Work> works_;
  std::uint32_t first_work_ = 0;  ///< operation number of works_[0]
  /// Number of work requests at the front of works_ that are entirely cut into packets.
  std::uint32_t cut_works_ = 0;
  /// Bytes of the next work request that are already cut into packets.
  std::uint64_t cut_bytes_ = 0;
  RingQueue<Response> responses_;
  RingQueue<Flight> flights_;
  std::uint32_t first_flight_ = 0;  ///< sequence number of flights_[0]
  std::uint32_t lost_ = 0;          ///< number of packets in flights_ that must be retransmitted

  std::uint32_t expected_ = 0;  ///< sequence number of the next packet to accept
  std::vector<NicPacket> early_;
  std::uint32_t unacknowledged_arrivals_ = 0;

  Instant last_heard_{};
  Instant attentive_since_{};
  Instant last_ping_{};
};

}  // namespace tutti::device::sim
