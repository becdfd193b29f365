// A reliable connection as NICs do it: packets of the MTU with sequence numbers, cumulative and
// selective acknowledgements, resent on a gap or a time-out. SEND, WRITE, WRITE with immediate and
// READ, executed and completed in the order posted.
//
// No fabric and no clock: packets and instants come in, packets and completions go out.
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

/// What the connections of an endpoint share. Handed to each call, so that a connection stays
/// small.
struct NicShared {
  NicSettings settings{};
  Nanoseconds peer_timeout{};
  PayloadStore* payloads = nullptr;
  RegionTable regions{};
  CompletionRing completions{};
  EndpointCounters counters{};
  std::uint64_t acknowledgements_sent = 0;  ///< alone
  std::uint64_t placed_check = 0;  ///< where bytes are not carried: which addresses were filled
};

/// The check value of memory [at, at + bytes), such that those of disjoint parts add up to that of
/// the whole.
std::uint64_t placement_check(const std::byte* at, std::uint64_t bytes);

class NicConnection {
 public:
  explicit NicConnection(Rank peer) : peer_(peer) {}

  Rank peer() const { return peer_; }
  /// Queues work. Refused: a message too long or an opcode that cannot be posted
  /// (invalid_argument), a failed connection (peer_failed).
  Status post(NicShared& nic, Instant now, const WorkRequest& request);
  bool has_output(const NicShared& nic) const;
  /// Fills in the next packet to send; false where there is none.
  bool next_packet(NicShared& nic, Instant now, NicPacket& packet);
  /// Takes a packet of the peer and its reference to the payload.
  void on_packet(NicShared& nic, Instant now, const NicPacket& packet);
  void on_timer(NicShared& nic, Instant now);
  /// When on_timer has something to do; kNever where nothing is awaited.
  Instant next_deadline(const NicShared& nic) const;
  /// While on, a silent peer is asked for a sign of life and given up after the peer timeout.
  void watch(NicShared& nic, Instant now, bool on);
  bool quiet() const {
    return works_.empty() && flights_.empty() && responses_.empty() && !acknowledge_;
  }
  bool failed() const { return failed_; }
  /// Lets go of all payloads.
  void clear(NicShared& nic);

 private:
  struct Work {
    Opcode opcode = Opcode::send;
    bool signaled = true;
    bool answered = false;  ///< READ: everything is there, or it was refused
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
  /// What a peer's request makes us send.
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
  std::uint32_t refusals_ = 0;  ///< queued or on their way
  std::uint32_t refused_sequence_ = 0;

  RingQueue<Work> works_;
  std::uint32_t first_work_ = 0;  ///< operation number of works_[0]
  std::uint32_t cut_works_ = 0;   ///< works_ that are wholly in packets
  std::uint64_t cut_bytes_ = 0;   ///< of the next one
  RingQueue<Response> responses_;
  RingQueue<Flight> flights_;
  std::uint32_t first_flight_ = 0;  ///< sequence number of flights_[0]
  std::uint32_t lost_ = 0;          ///< flights to send again

  std::uint32_t expected_ = 0;  ///< sequence number
  std::vector<NicPacket> early_;
  std::uint32_t unacknowledged_arrivals_ = 0;

  Instant last_heard_{};
  Instant attentive_since_{};
  Instant last_ping_{};
};

}  // namespace tutti::device::sim
