#include "engine/multicast/multicast_receiver.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace tutti::engine {

using protocol::Block;

void MulticastReceiver::start() {
  const auto senders = static_cast<std::uint32_t>(call_.layout.blocks().size());
  call_.arrivals.first_chunk_seen.resize(senders);
  for (std::uint32_t b = 0; b < senders; ++b) {
    if (b == call_.own_block || call_.layout.blocks()[b].psns.empty()) continue;
    ++call_.arrivals.ends_expected;
    if (call_.has_workers()) open_blocks_.push_back(b);
  }
  meter_ = std::make_unique<ArrivalMeter>(senders, call_.chains == 1);
}

void MulticastReceiver::on_malformed(Rank source) {
  ++context().counters().chunks_malformed;
  if (call_.lossless) context().failures().fail_without_slow_path(source);
}

/// Handles a chunk that does not fit the layout. If the payload is intact, the sender called the
/// collective with other sizes and will never send the data that this rank needs. Otherwise the
/// header is damaged or forged.
void MulticastReceiver::on_misfit(const device::ReceivedChunk& chunk,
                                  device::MulticastQueuePair& queue_pair) {
  on_malformed(chunk.source);
  if (call_.lossless) return;
  std::vector<std::byte> aside(chunk.payload.size());
  if (queue_pair.copy_and_verify(chunk, aside.data()))
    context().failures().fail_with_other_sizes(chunk.source, aside.size());
}

std::optional<MulticastReceiver::ChunkRef> MulticastReceiver::locate(std::uint32_t psn, Rank source,
                                                                     std::size_t bytes) {
  if (!call_.fetch || !plausible(call_.layout, psn, source, bytes, block_hint_))
    return std::nullopt;
  const Block& block = call_.layout.blocks()[block_hint_];
  return ChunkRef{block_hint_, call_.layout.offset_of(block, psn)};
}

/// The address to which a chunk may be written. Null if the chunk is present or being READ; if
/// `counted`, the chunk is then counted as a duplicate.
std::byte* MulticastReceiver::writable(const ChunkRef& chunk, std::uint32_t psn, bool counted) {
  // A READ of this chunk may already have written verified bytes, which a damaged datagram must not
  // overwrite.
  if (call_.map->has(chunk.block, psn) || call_.fetch->reading(psn)) {
    if (counted) ++context().counters().chunks_duplicate;
    return nullptr;
  }
  return call_.buffer.data() + chunk.offset_bytes;
}

device::Placement MulticastReceiver::landing(const device::MessageHead& chunk, bool begins) {
  const auto at = locate(chunk.psn, chunk.source, chunk.bytes);
  if (!at) {
    // A chunk that does not fit the layout goes to staging, where `on_misfit` checks its integrity.
    if (!call_.lossless) return {device::Placement::Where::staging};
    if (begins) on_malformed(chunk.source);
    return {};
  }
  // While multicast of its source may be lost, a late chunk goes to staging, where `on_chunk`
  // verifies it.
  const bool verify = begins && context().receiver().membership().suspects(chunk.source);
  std::byte* const place = writable(*at, chunk.psn, begins && !verify);
  if (place == nullptr && verify) return {device::Placement::Where::staging};
  if (place == nullptr) return {};
  return {device::Placement::Where::buffer, place};
}

void MulticastReceiver::on_chunk(Instant now, const device::ReceivedChunk& chunk,
                                 device::MulticastQueuePair& queue_pair) {
  observe::Counters& counters = context().counters();
  const auto at = locate(chunk.psn, chunk.source, chunk.payload.size());
  if (!at) {
    on_misfit(chunk, queue_pair);
    return;
  }
  std::byte* const place = writable(*at, chunk.psn, true);
  if (place == nullptr) {
    // A multicast chunk that arrives after a READ of the same chunk was only late. If it is
    // authentic, multicast of its root reaches this rank.
    GroupMembership& membership = context().receiver().membership();
    if (membership.suspects(chunk.source) && queue_pair.copy_and_verify(chunk, nullptr))
      membership.heard(chunk.source);
    return;
  }
  if (!queue_pair.copy_and_verify(chunk, place)) {
    ++counters.chunks_damaged;
    if (call_.lossless) context().failures().fail_without_slow_path(chunk.source);
    return;
  }
  const std::uint32_t b = at->block;
  const Block& block = call_.layout.blocks()[b];
  const std::uint32_t subgroup = call_.layout.subgroup_of(block, chunk.psn);
  if (chunk.psn + 1 < call_.map->horizon(b, subgroup)) ++counters.chunks_out_of_order;
  call_.map->mark(b, subgroup, chunk.psn);
  ++counters.chunks_received;
  if (call_.gather)
    meter_->arrived(now, b, chunk.payload.size(), !call_.arrivals.first_chunk_seen[b]);
  on_marked(now, b);
  if (chunk.psn + 1 < block.psns.last) return;
  call_.trace.collected(b);
  on_block_end(now);
}

void MulticastReceiver::on_unexpected_chunk(Instant now, std::uint32_t psn, Rank source,
                                            std::span<const std::byte> payload) {
  const auto at = locate(psn, source, payload.size());
  if (!at) {
    on_malformed(source);
    if (!call_.lossless) context().failures().fail_with_other_sizes(source, payload.size());
    return;
  }
  const std::uint32_t b = at->block;
  if (call_.map->has(b, psn)) {
    ++context().counters().chunks_duplicate;
    return;
  }
  std::memcpy(call_.buffer.data() + at->offset_bytes, payload.data(), payload.size());
  call_.map->mark(b, call_.layout.subgroup_of(call_.layout.blocks()[b], psn), psn);
  ++context().counters().chunks_received;
  on_marked(now, b);
}

void MulticastReceiver::on_marked(Instant now, std::uint32_t block_index) {
  const bool begun = call_.arrivals.first_chunk_seen[block_index];
  if (!begun) begin_block(block_index);
  call_.dirty = true;
  if (now == call_.arrivals.last) return;
  // The wait for the first chunk of a block is not counted as jitter, because it depends on how
  // late the sender was.
  if (begun) context().network().jitter().observe(now - call_.arrivals.last);
  call_.arrivals.last = now;
  call_.cutoff->progress(now);
  if (auto* priorities = context().endpoint().priorities())
    priorities->on_arrival(call_.priority, now);
}

// When every block's last chunk has arrived, missing chunks are lost or reordered. They are
// requested as soon as reordering is ruled out, because only they still delay the collective.
void MulticastReceiver::on_block_end(Instant now) {
  if (++call_.arrivals.ends_seen < call_.arrivals.ends_expected || call_.received_all() ||
      !call_.ready)
    return;
  recovery_.hasten(now);
}

void MulticastReceiver::begin_block(std::uint32_t block_index) {
  call_.arrivals.first_chunk_seen[block_index] = true;
  call_.trace.collecting(block_index);
  end_blocks_before(block_index);
}

/// Called when block `block_index` arrives. The root of this block was activated only after its
/// predecessors in the chain had sent their whole blocks, so the last of these blocks that is not
/// empty is recorded as sent.
void MulticastReceiver::end_blocks_before(std::uint32_t block_index) {
  for (Rank before = call_.sequencer->predecessor(rank_of(block_index)); before != kNoRank;
       before = call_.sequencer->predecessor(before)) {
    if (call_.layout.blocks()[index(before)].psns.empty()) continue;
    recovery_.block_ended(index(before));
    return;
  }
}

void MulticastReceiver::cast_vote(Instant now, bool queue_filled, bool began_together) {
  // The network counts as lossy if more than 1 / kLossyShare of the chunks were lost. If at most
  // 1 / kCongestedShare of them were lost, the pace is not the cause of the losses.
  constexpr std::uint64_t kLossyShare = 20;
  constexpr std::uint64_t kCongestedShare = 50;
  // A short collective casts no vote, because it has so few chunks that one lost chunk is no
  // evidence of an overflowing queue.
  if (call_.data_bytes <= protocol::SendSchedule::kSmallBytes) return;
  protocol::RateVote& vote = context().network().vote();
  if (call_.fetch->counters().chunks_lost * kLossyShare > call_.layout.chunk_count())
    vote.lossy = true;
  if (call_.chains == 1) vote.link_bound = queue_filled;
  const bool paced = call_.plan.bytes_per_second > 0;
  if (call_.chains != 1 && !paced) return;
  std::uint64_t rate = meter_->bytes_per_second();
  // If every block is too short to be measured alone, the rate is measured over all blocks
  // together, from the start of the data phase until now. Without a ready barrier this time may
  // include the wait for a late rank, so no rate is measured.
  if (rate == 0 && !began_together) return;
  if (rate == 0) rate = ArrivalMeter::rate(call_.data_bytes, now - call_.arrivals.since);
  if (paced && rate > 0) {
    rate = protocol::learned_rate(
        call_.plan.bytes_per_second, rate, meter_->measured_time(),
        call_.fetch->counters().chunks_lost * kCongestedShare > call_.layout.chunk_count());
  }
  const auto kib = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(rate / 1024, protocol::RateVote::kNoRate - 1));
  // The vote carries the highest rate of several collectives, because a disturbance can only lower
  // a measured rate.
  vote.rate_kib = vote.rate_kib == protocol::RateVote::kNoRate ? kib : std::max(vote.rate_kib, kib);
}

void MulticastReceiver::on_arrivals(Instant now, const std::vector<Arrival>& arrivals) {
  if (!call_.fetch) return;
  call_.dirty = true;
  for (const Arrival& arrival : arrivals) {
    if (arrival.epoch != call_.epoch) continue;
    // Receive workers read their clocks independently, so an arrival may seem older than the
    // previous arrival. The time of the previous arrival is then used.
    const Instant at = std::max(arrival.at, call_.arrivals.last);
    const std::uint32_t b = arrival.block_index;
    if (call_.gather) meter_->arrived(at, b, arrival.bytes, !call_.arrivals.first_chunk_seen[b]);
    on_marked(at, b);
  }
  const auto reached = [&](std::uint32_t b) {
    for (std::uint32_t s = 0; s < call_.layout.subgroups(); ++s) {
      if (call_.map->horizon(b, s) > call_.layout.blocks()[b].psns.first) return true;
    }
    return false;
  };
  std::erase_if(open_blocks_, [&](std::uint32_t b) {
    if (!call_.arrivals.first_chunk_seen[b] && reached(b)) on_marked(now, b);
    if (!call_.map->has(b, call_.layout.blocks()[b].psns.last - 1)) return false;
    call_.trace.collected(b);
    on_block_end(now);
    return true;
  });
}

}  // namespace tutti::engine
