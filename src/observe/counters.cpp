#include "observe/counters.hpp"

namespace tutti::observe {

std::vector<std::pair<std::string, std::uint64_t>> list(const Counters& counters) {
  return {
      {"collectives_started", counters.collectives_started},
      {"collectives_completed", counters.collectives_completed},
      {"collectives_failed", counters.collectives_failed},
      {"chunks_sent", counters.chunks_sent},
      {"chunks_received", counters.chunks_received},
      {"chunks_duplicate", counters.chunks_duplicate},
      {"chunks_stale", counters.chunks_stale},
      {"chunks_early", counters.chunks_early},
      {"chunks_early_dropped", counters.chunks_early_dropped},
      {"chunks_out_of_order", counters.chunks_out_of_order},
      {"chunks_malformed", counters.chunks_malformed},
      {"chunks_damaged", counters.chunks_damaged},
      {"chunks_lost", counters.chunks_lost},
      {"chunks_fetched", counters.chunks_fetched},
      {"bytes_fetched", counters.bytes_fetched},
      {"chunks_multicast_again", counters.chunks_multicast_again},
      {"bytes_multicast_again", counters.bytes_multicast_again},
      {"tails_repeated", counters.tails_repeated},
      {"fetch_ranges_asked", counters.fetch_ranges_asked},
      {"fetch_ranges_served", counters.fetch_ranges_served},
      {"fetch_ranges_deferred", counters.fetch_ranges_deferred},
      {"fetch_targets_skipped", counters.fetch_targets_skipped},
      {"loss_hints_sent", counters.loss_hints_sent},
      {"cutoff_silence", counters.cutoff_silence},
      {"cutoff_neighbour_finished", counters.cutoff_neighbour_finished},
      {"ready_by_barrier", counters.ready_by_barrier},
      {"ready_by_credit", counters.ready_by_credit},
      {"credit_stalls", counters.credit_stalls},
      {"credit_stall_ns", counters.credit_stall_ns},
      {"credits_granted", counters.credits_granted},
      {"send_queue_full", counters.send_queue_full},
      {"activations", counters.activations},
      {"messages_sent", counters.messages_sent},
      {"messages_received", counters.messages_received},
      {"messages_rejected", counters.messages_rejected},
      {"ready_phase_ns", counters.ready_phase_ns},
      {"data_phase_ns", counters.data_phase_ns},
      {"handshake_phase_ns", counters.handshake_phase_ns},
      {"chunks_received_by_workers", counters.chunks_received_by_workers},
      {"receive_worker_batches", counters.receive_worker_batches},
  };
}

}  // namespace tutti::observe
