// Counters of protocol events, one set for each communicator. Tests use them to assert the path
// taken and its cost; operators use them to find out why a collective was slow.
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
  std::uint64_t chunks_received = 0;  ///< chunks placed for the first time
  std::uint64_t chunks_duplicate = 0;
  std::uint64_t chunks_stale = 0;  ///< chunks received after their collective had ended
  /// Chunks that this rank stored because it had not begun their collective.
  std::uint64_t chunks_unexpected = 0;
  std::uint64_t chunks_unexpected_dropped = 0;  ///< unexpected chunks dropped for lack of memory
  std::uint64_t chunks_out_of_order = 0;
  std::uint64_t chunks_malformed = 0;  ///< chunks whose PSN, source or length fits no block
  std::uint64_t chunks_damaged = 0;    ///< chunks whose integrity word was wrong
  std::uint64_t chunks_lost = 0;       ///< chunks declared lost at this rank
  std::uint64_t chunks_fetched = 0;
  std::uint64_t bytes_fetched = 0;
  std::uint64_t chunks_retransmitted = 0;
  std::uint64_t bytes_retransmitted = 0;
  std::uint64_t tail_probes = 0;  ///< chunks sent again as tail probes
  std::uint64_t fetch_ranges_asked = 0;
  std::uint64_t fetch_ranges_served = 0;
  std::uint64_t fetch_ranges_deferred = 0;
  std::uint64_t fetch_targets_skipped = 0;
  std::uint64_t retransmit_requests_sent = 0;
  /// Number of collectives in which this rank fetched all chunks of at least one other rank,
  /// because none of that rank's chunks came by multicast.
  std::uint64_t multicast_fallbacks = 0;
  /// Number of times that this rank joined its multicast groups again.
  std::uint64_t multicast_rejoins = 0;
  /// Number of blocks that this rank multicast and then retained, so that no handshake was needed.
  std::uint64_t blocks_retained = 0;
  std::uint64_t retained_ranges_served = 0;  ///< requested chunk ranges served from retained blocks
  std::uint64_t delivery_acks_sent = 0;      ///< delivery ACKs sent to roots that retain blocks
  std::uint64_t cutoff_silence = 0;
  std::uint64_t cutoff_neighbour_finished = 0;
  std::uint64_t ready_by_barrier = 0;
  std::uint64_t ready_by_credit = 0;
  std::uint64_t credit_stalls = 0;  ///< number of times that a sender waited for credit
  std::uint64_t credit_stall_ns = 0;
  std::uint64_t credits_granted = 0;
  std::uint64_t send_queue_full = 0;
  std::uint64_t activations = 0;
  std::uint64_t slot_exchanges = 0;  ///< collectives run as slot exchanges
  /// Slot NAKs sent because another rank's entry was missing.
  std::uint64_t slot_entries_requested = 0;
  std::uint64_t slot_entries_resent = 0;  ///< slot entries of this rank sent again after a slot NAK
  /// Priority of the progress thread: the amount by which its nice value is below 0, or 100 for
  /// real-time priority.
  std::uint64_t background_priority = 0;
  /// Number of times that the progress thread used up its real-time budget and lost real-time
  /// priority for a while.
  std::uint64_t background_budget_exhausted = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  /// Messages received that were malformed or not allowed from their sender.
  std::uint64_t messages_rejected = 0;
  std::uint64_t messages_eager = 0;          ///< messages of schedules sent eagerly
  std::uint64_t messages_rendezvous = 0;     ///< messages of schedules sent by rendezvous
  std::uint64_t tagged_sent_eager = 0;       ///< tagged messages sent with their data
  std::uint64_t tagged_sent_rendezvous = 0;  ///< tagged messages whose data the receiver READs
  /// Tagged messages that arrived after their receive was posted.
  std::uint64_t tagged_expected = 0;
  /// Tagged messages that arrived before their receive was posted.
  std::uint64_t tagged_unexpected = 0;
  /// Bytes of tagged messages copied by the engine: to a send buffer, or from the store of
  /// unexpected messages.
  std::uint64_t tagged_bytes_copied = 0;
  std::uint64_t copies_overlapped = 0;  ///< long copies made in slices during transfers
  std::uint64_t bytes_reduced = 0;
  std::uint64_t in_network_calls = 0;  ///< collectives reduced by an aggregator
  /// Segments that this rank contributed to an aggregator.
  std::uint64_t in_network_segments_sent = 0;
  std::uint64_t in_network_bytes_sent = 0;
  /// Bytes of this rank's own contribution that it added to results itself instead of sending them
  /// to the aggregator.
  std::uint64_t in_network_bytes_joined = 0;
  /// Number of times that this rank waited for aggregator credit.
  std::uint64_t in_network_stalls = 0;
  std::uint64_t in_network_stall_ns = 0;
  std::uint64_t in_network_segments_reduced = 0;  ///< segments reduced, counted at the aggregator
  /// Bytes of all contributions, counted at the aggregator.
  std::uint64_t in_network_bytes_reduced = 0;
  /// Reduction results, counted at the aggregator that sends them and at each rank that receives
  /// them.
  std::uint64_t in_network_results = 0;
  /// Number of times that the aggregator's memory for results was full.
  std::uint64_t in_network_result_stalls = 0;
  std::uint64_t in_network_pulses = 0;  ///< number of times that the aggregator returned credit
  std::uint64_t ready_phase_ns = 0;
  std::uint64_t data_phase_ns = 0;
  std::uint64_t handshake_phase_ns = 0;
  std::uint64_t chunks_received_by_workers = 0;  ///< chunks placed by receive workers
  std::uint64_t receive_worker_batches = 0;      ///< batches polled by receive workers
};

/// The names and values of all counters, in the order of declaration.
std::vector<std::pair<std::string, std::uint64_t>> list(const Counters& counters);

}  // namespace tutti::observe
