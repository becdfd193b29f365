// The names that counters had before a rename, kept for one release.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::runtime {

/// Pairs of the old and the present name of a counter.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kCounterAliases{{
    {"chunks_early", "chunks_unexpected"},
    {"chunks_early_dropped", "chunks_unexpected_dropped"},
    {"chunks_multicast_again", "chunks_retransmitted"},
    {"bytes_multicast_again", "bytes_retransmitted"},
    {"tails_repeated", "tail_probes"},
    {"loss_hints_sent", "retransmit_requests_sent"},
    {"blocks_kept", "blocks_retained"},
    {"kept_ranges_served", "retained_ranges_served"},
    {"receipts_sent", "delivery_acks_sent"},
    {"board_meetings", "slot_exchanges"},
    {"board_entries_missed", "slot_entries_requested"},
    {"board_entries_again", "slot_entries_resent"},
    {"background_precedence", "background_priority"},
    {"background_stepped_back", "background_budget_exhausted"},
    {"copies_beside", "copies_overlapped"},
    {"device_board_datagrams_sent", "device_slot_datagrams_sent"},
    {"device_board_datagrams_received", "device_slot_datagrams_received"},
    {"device_reliable_tails_repeated", "device_reliable_tail_probes"},
}};

/// Appends each renamed counter under its old name, too.
inline void add_old_names(std::vector<std::pair<std::string, std::uint64_t>>& counters) {
  counters.reserve(counters.size() + kCounterAliases.size());
  for (const auto& alias : kCounterAliases) {
    const auto present = std::find_if(counters.begin(), counters.end(), [&alias](const auto& one) {
      return one.first == alias.second;
    });
    if (present != counters.end()) counters.emplace_back(alias.first, present->second);
  }
}

}  // namespace tutti::runtime
