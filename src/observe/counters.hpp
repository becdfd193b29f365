// Counts of everything the protocol does, per communicator. Tests assert by them which path ran and
// what it cost; operators see by them why a collective was slow.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tutti::observe {

struct Counters {
  std::uint64_t collectives_started = 0;
  std::uint64_t collectives_completed = 0;
  std::uint64_t collectives_failed = 0;
  std::uint64_t chunks_sent = 0;
  std::uint64_t chunks_received = 0;  ///< placed for the first time
  std::uint64_t chunks_duplicate = 0;
  std::uint64_t chunks_stale = 0;       ///< of a finished collective
  std::uint64_t chunks_unexpected = 0;  ///< of a collective that this rank had not started: kept
  std::uint64_t chunks_unexpected_dropped = 0;  ///< the same, beyond what may be kept
  std::uint64_t chunks_out_of_order = 0;
  std::uint64_t chunks_malformed = 0;  ///< PSN, source or length contradict the collective
  std::uint64_t chunks_damaged = 0;    ///< integrity did not hold
  std::uint64_t chunks_lost = 0;       ///< declared lost at this rank
  std::uint64_t chunks_fetched = 0;
  std::uint64_t bytes_fetched = 0;
  std::uint64_t chunks_retransmitted = 0;
  std::uint64_t bytes_retransmitted = 0;
  std::uint64_t tail_probes = 0;  ///< of those, chunks that only show how far we have sent
  std::uint64_t fetch_ranges_asked = 0;
  std::uint64_t fetch_ranges_served = 0;
  std::uint64_t fetch_ranges_deferred = 0;
  std::uint64_t fetch_targets_skipped = 0;
  std::uint64_t retransmit_requests_sent = 0;
  std::uint64_t blocks_retained = 0;         ///< this rank's own, copied instead of a handshake
  std::uint64_t retained_ranges_served = 0;  ///< from those copies
  std::uint64_t delivery_acks_sent = 0;      ///< to ranks that keep a copy
  std::uint64_t cutoff_silence = 0;
  std::uint64_t cutoff_neighbour_finished = 0;
  std::uint64_t ready_by_barrier = 0;
  std::uint64_t ready_by_credit = 0;
  std::uint64_t credit_stalls = 0;  ///< times that a sender had to wait for credits
  std::uint64_t credit_stall_ns = 0;
  std::uint64_t credits_granted = 0;
  std::uint64_t send_queue_full = 0;
  std::uint64_t activations = 0;
  std::uint64_t slot_exchanges = 0;          ///< collectives that met at the device's board
  std::uint64_t slot_entries_requested = 0;  ///< that this rank asked others for
  std::uint64_t slot_entries_resent = 0;     ///< that it put there again because others asked
  /// By how much the nice value of the thread that drives in the background is below 0; 100: it
  /// goes before every nice value.
  std::uint64_t background_priority = 0;
  /// How often it had taken so much of its core that it stood at its nice value for a while.
  std::uint64_t background_budget_exhausted = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t messages_rejected = 0;    ///< malformed, or from a rank that may not say that
  std::uint64_t messages_eager = 0;       ///< of schedules, copied into the message (C4)
  std::uint64_t messages_rendezvous = 0;  ///< of schedules, written to where the receiver said (C5)
  std::uint64_t copies_overlapped = 0;    ///< of schedules, long: carried out beside the transfers
  std::uint64_t bytes_reduced = 0;
  std::uint64_t in_network_calls = 0;          ///< that go by the aggregator of this communicator
  std::uint64_t in_network_segments_sent = 0;  ///< contributions of this rank
  std::uint64_t in_network_bytes_sent = 0;
  std::uint64_t in_network_bytes_joined = 0;  ///< this rank's own, joined to what the others gave
  std::uint64_t in_network_stalls = 0;        ///< times that a rank had to wait for credits (T4)
  std::uint64_t in_network_stall_ns = 0;
  std::uint64_t in_network_segments_reduced = 0;  ///< at the aggregator
  std::uint64_t in_network_bytes_reduced = 0;     ///< the same, of all contributions together
  std::uint64_t in_network_results = 0;  ///< results sent by the aggregator, or got by this rank
  std::uint64_t in_network_result_stalls = 0;  ///< times that the aggregator's results were full
  std::uint64_t in_network_pulses = 0;         ///< credits that the aggregator returned (T4)
  std::uint64_t ready_phase_ns = 0;
  std::uint64_t data_phase_ns = 0;
  std::uint64_t handshake_phase_ns = 0;
  std::uint64_t chunks_received_by_workers = 0;  ///< of chunks_received: placed by receive workers
  std::uint64_t receive_worker_batches = 0;      ///< that these took from the queue pairs
};

/// Every counter by name, in declaration order.
std::vector<std::pair<std::string, std::uint64_t>> list(const Counters& counters);

}  // namespace tutti::observe
