// A reliable connection between simulated NICs: packets of the MTU with sequence numbers,
// cumulative and selective acknowledgements, and retransmission on a gap or a timeout. SEND, WRITE,
// WRITE with immediate and READ are executed and completed in the order posted.
//
// It contains no fabric and no clock: packets and instants go in, packets and completions come out.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "sim/device/completion_ring.hpp"
#include "sim/device/nic_packet.hpp"
#include "sim/device/nic_settings.hpp"
#include "sim/device/region_table.hpp"
#include "sim/device/ring_queue.hpp"

namespace tutti::device::sim {

/// State shared by the connections of an endpoint. It is passed to each call, so that a connection
/// stays small.
struct NicShared {
  NicSettings settings{};
  Nanoseconds peer_timeout{};
  PayloadStore* payloads = nullptr;
  RegionTable regions{};
  CompletionRing completions{};
  EndpointCounters counters{};
  std::uint64_t acknowledgements_sent = 0;  ///< packets with nothing but an acknowledgement
  /// If bytes are not carried: check value of the addresses filled.
  std::uint64_t placed_check = 0;
};

/// A check value of memory [at, at + bytes). The values of disjoint parts add up to that of the
/// whole.
std::uint64_t placement_check(const std::byte* at, std::uint64_t bytes);

class NicConnection {
 public:
  explicit NicConnection(Rank peer) : peer_(peer) {}

  Rank peer() const { return peer_; }
  /// Queues work. Errors: invalid_argument (a message too long, an opcode that cannot be posted),
  /// peer_failed (the connection has failed).
  Status post(NicShared& nic, Instant now, const WorkRequest& request);
  bool has_output(const NicShared& nic) const;
  /// Fills in the next packet to send; false if there is none.
  bool next_packet(NicShared& nic, Instant now, NicPacket& packet);
  /// Takes over a packet of the peer and its reference to the payload.
  void on_packet(NicShared& nic, Instant now, const NicPacket& packet);
  void on_timer(NicShared& nic, Instant now);
  /// The next instant at which on_timer has work; kNever if none.
  Instant next_deadline(const NicShared& nic) const;
  /// While on, pings a silent peer and gives it up after the peer timeout.
  void watch(NicShared& nic, Instant now, bool on);
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
    bool answered = false;  ///< READ: the data has arrived or was refused
    Code code = Code::ok;
    std::uint32_t unacknowledged = 0;  ///< packets
    std::uint64_t work_id = 0;
    std::span<std::byte> local;
    std::uint64_t key = 0;
    std::uint64_t offset = 0;
    std::uint64_t immediate = 0;
    std::uint64_t answered_bytes = 0;
    Payload* message = nullptr;  ///< SEND: its bytes
  };
  /// A response to a peer's request.
  struct Response {
    bool refused = false;
    std::uint32_t operation = 0;
    std::uint64_t key = 0;
    std::uint64_t offset = 0;
    std::uint64_t total = 0;
    std::uint64_t position = 0;
  };
  /// A packet that was sent and is not acknowledged.
  struct Flight {
    NicPacketKind kind = NicPacketKind::send;
    bool last = false;
    bool arrived = false;  ///< acknowledged selectively
    bool lost = false;
    std::uint8_t resent = 0;
    std::uint32_t operation = 0;
    std::uint32_t length = 0;
    std::uint64_t position = 0;
    std::uint64_t key = 0;     ///< read_response
    std::uint64_t offset = 0;  ///< read_response
    Instant sent{};
  };

  bool waiting() const { return !works_.empty() || !flights_.empty(); }
  bool attentive() const { return watched_ || waiting(); }
  Instant silent_since() const { return std::max(last_heard_, attentive_since_); }
  Nanoseconds ping_interval(const NicShared& nic) const { return nic.peer_timeout / 4; }
  Nanoseconds timeout(const NicShared& nic) const;
  bool may_cut(const NicShared& nic) const;
  bool cut(const NicShared& nic, Flight& flight);
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
  void accept_answer(NicShared& nic, const NicPacket& packet);
  void place(NicShared& nic, const NicPacket& packet, std::span<std::byte> to);
  void complete_finished(NicShared& nic, Instant now);
  void fail(NicShared& nic, Instant now);
  Work* open_work(std::uint32_t operation);

  Rank peer_;
  bool failed_ = false;
  bool watched_ = false;
  bool ping_ = false;
  bool acknowledge_ = false;
  bool refused_any_ = false;
  std::uint8_t backoff_ = 0;
  std::uint32_t refused_operation_ = 0;
  std::uint32_t refusals_ = 0;  ///< refusals queued or in flight
  std::uint32_t refused_sequence_ = 0;

  RingQueue<Work> works_;
  std::uint32_t first_work_ = 0;  ///< operation number of works_[0]
  std::uint32_t cut_works_ = 0;   ///< leading works_ that are entirely cut into packets
  std::uint64_t cut_bytes_ = 0;   ///< bytes of the next work cut so far
  RingQueue<Response> responses_;
  RingQueue<Flight> flights_;
  std::uint32_t first_flight_ = 0;  ///< sequence number of flights_[0]
  std::uint32_t lost_ = 0;          ///< flights to retransmit

  std::uint32_t expected_ = 0;  ///< sequence number
  std::vector<NicPacket> early_;
  std::uint32_t unacknowledged_arrivals_ = 0;

  Instant last_heard_{};
  Instant attentive_since_{};
  Instant last_ping_{};
};

}  // namespace tutti::device::sim
