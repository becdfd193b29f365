#include "observe/counters.hpp"

#include <array>

namespace tutti::observe {

namespace {

struct Named {
  const char* name;
  std::uint64_t Counters::*value;
};

constexpr std::array kCounters = {
    Named{"collectives_started", &Counters::collectives_started},
    Named{"collectives_completed", &Counters::collectives_completed},
    Named{"collectives_failed", &Counters::collectives_failed},
    Named{"chunks_sent", &Counters::chunks_sent},
    Named{"chunks_received", &Counters::chunks_received},
    Named{"chunks_duplicate", &Counters::chunks_duplicate},
    Named{"chunks_stale", &Counters::chunks_stale},
    Named{"chunks_unexpected", &Counters::chunks_unexpected},
    Named{"chunks_unexpected_dropped", &Counters::chunks_unexpected_dropped},
    Named{"chunks_out_of_order", &Counters::chunks_out_of_order},
    Named{"chunks_malformed", &Counters::chunks_malformed},
    Named{"chunks_damaged", &Counters::chunks_damaged},
    Named{"chunks_lost", &Counters::chunks_lost},
    Named{"chunks_fetched", &Counters::chunks_fetched},
    Named{"bytes_fetched", &Counters::bytes_fetched},
    Named{"chunks_retransmitted", &Counters::chunks_retransmitted},
    Named{"bytes_retransmitted", &Counters::bytes_retransmitted},
    Named{"tail_probes", &Counters::tail_probes},
    Named{"fetch_ranges_asked", &Counters::fetch_ranges_asked},
    Named{"fetch_ranges_served", &Counters::fetch_ranges_served},
    Named{"fetch_ranges_deferred", &Counters::fetch_ranges_deferred},
    Named{"fetch_targets_skipped", &Counters::fetch_targets_skipped},
    Named{"retransmit_requests_sent", &Counters::retransmit_requests_sent},
    Named{"multicast_fallbacks", &Counters::multicast_fallbacks},
    Named{"multicast_rejoins", &Counters::multicast_rejoins},
    Named{"blocks_retained", &Counters::blocks_retained},
    Named{"retained_ranges_served", &Counters::retained_ranges_served},
    Named{"delivery_acks_sent", &Counters::delivery_acks_sent},
    Named{"cutoff_silence", &Counters::cutoff_silence},
    Named{"cutoff_neighbour_finished", &Counters::cutoff_neighbour_finished},
    Named{"ready_by_barrier", &Counters::ready_by_barrier},
    Named{"ready_by_credit", &Counters::ready_by_credit},
    Named{"credit_stalls", &Counters::credit_stalls},
    Named{"credit_stall_ns", &Counters::credit_stall_ns},
    Named{"credits_granted", &Counters::credits_granted},
    Named{"send_queue_full", &Counters::send_queue_full},
    Named{"activations", &Counters::activations},
    Named{"slot_exchanges", &Counters::slot_exchanges},
    Named{"slot_entries_requested", &Counters::slot_entries_requested},
    Named{"slot_entries_resent", &Counters::slot_entries_resent},
    Named{"background_priority", &Counters::background_priority},
    Named{"background_budget_exhausted", &Counters::background_budget_exhausted},
    Named{"messages_sent", &Counters::messages_sent},
    Named{"messages_received", &Counters::messages_received},
    Named{"messages_rejected", &Counters::messages_rejected},
    Named{"messages_eager", &Counters::messages_eager},
    Named{"messages_rendezvous", &Counters::messages_rendezvous},
    Named{"tagged_sent_eager", &Counters::tagged_sent_eager},
    Named{"tagged_sent_rendezvous", &Counters::tagged_sent_rendezvous},
    Named{"tagged_expected", &Counters::tagged_expected},
    Named{"tagged_unexpected", &Counters::tagged_unexpected},
    Named{"tagged_bytes_copied", &Counters::tagged_bytes_copied},
    Named{"copies_overlapped", &Counters::copies_overlapped},
    Named{"bytes_reduced", &Counters::bytes_reduced},
    Named{"in_network_calls", &Counters::in_network_calls},
    Named{"in_network_segments_sent", &Counters::in_network_segments_sent},
    Named{"in_network_bytes_sent", &Counters::in_network_bytes_sent},
    Named{"in_network_bytes_joined", &Counters::in_network_bytes_joined},
    Named{"in_network_stalls", &Counters::in_network_stalls},
    Named{"in_network_stall_ns", &Counters::in_network_stall_ns},
    Named{"in_network_segments_reduced", &Counters::in_network_segments_reduced},
    Named{"in_network_bytes_reduced", &Counters::in_network_bytes_reduced},
    Named{"in_network_results", &Counters::in_network_results},
    Named{"in_network_result_stalls", &Counters::in_network_result_stalls},
    Named{"in_network_pulses", &Counters::in_network_pulses},
    Named{"ready_phase_ns", &Counters::ready_phase_ns},
    Named{"data_phase_ns", &Counters::data_phase_ns},
    Named{"handshake_phase_ns", &Counters::handshake_phase_ns},
    Named{"chunks_received_by_workers", &Counters::chunks_received_by_workers},
    Named{"receive_worker_batches", &Counters::receive_worker_batches},
};
static_assert(sizeof(Counters) == kCounters.size() * sizeof(std::uint64_t),
              "a counter has no name here");

}  // namespace

std::vector<std::pair<std::string, std::uint64_t>> list(const Counters& counters) {
  std::vector<std::pair<std::string, std::uint64_t>> all;
  all.reserve(kCounters.size());
  for (const Named& one : kCounters) all.emplace_back(one.name, counters.*one.value);
  return all;
}

}  // namespace tutti::observe
