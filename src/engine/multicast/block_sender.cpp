#include "engine/multicast/block_sender.hpp"

#include <algorithm>

namespace tutti::engine {

namespace {

// Time after which a full send queue is polled again.
constexpr Nanoseconds kQueueRetry{200'000};

}  // namespace

BlockSender::BlockSender(const protocol::BlockLayout& layout, std::uint32_t block_index,
                         std::span<const std::byte> data, std::uint32_t epoch, Priority priority,
                         device::Endpoint& endpoint, observe::Counters& counters)
    : layout_(layout),
      block_index_(block_index),
      data_(data),
      epoch_(epoch),
      priority_(priority),
      endpoint_(endpoint),
      counters_(counters),
      link_fills_queue_(!endpoint.capabilities().has(device::Capability::backpressure)),
      batch_chunks_(std::max(1u, endpoint.capabilities().max_send_batch)) {
  for (std::uint32_t s = 0; s < layout.subgroups(); ++s) {
    cursors_.push_back(block().psns.first + s * layout.slice_chunks());
  }
}

void BlockSender::set_pace(const protocol::Pace& pace, std::uint64_t batch_bytes) {
  pace_ = pace;
  const auto chunks = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(batch_bytes / layout_.chunk_bytes(), batch_chunks_));
  batch_chunks_ = std::max(1u, chunks);
}

std::uint32_t BlockSender::post(std::uint32_t subgroup, Range psns) {
  const std::uint64_t at = layout_.offset_of(block(), psns.first) - block().offset_bytes;
  auto posted = endpoint_.multicast(subgroup).post(
      {.epoch = epoch_,
       .first_psn = psns.first,
       .data = data_.subspan(at, layout_.bytes_of(block(), psns)),
       .chunk_bytes = layout_.chunk_bytes(),
       .priority = priority_});
  if (!posted) {
    status_ = posted.status();
    blocked_ = true;
    retry_after_ = kQueueRetry;
    return 0;
  }
  if (*posted < psns.size()) {
    blocked_ = true;
    drain(kQueueRetry);
    ++counters_.send_queue_full;
  }
  return *posted;
}

void BlockSender::begin_round() {
  blocked_ = false;
  retry_after_.reset();
}

void BlockSender::drain(Nanoseconds retry_after) {
  queue_filled_ |= link_fills_queue_;
  retry_after_ = std::min(retry_after, kQueueRetry);
}

Range BlockSender::next_run(std::uint32_t subgroup, std::uint32_t limit) const {
  const std::uint32_t at = cursors_[subgroup];
  if (at >= limit) return {at, at};
  const std::uint32_t in_segment = (at - block().psns.first) % layout_.segment_chunks();
  const std::uint32_t slice_left = (subgroup + 1) * layout_.slice_chunks() - in_segment;
  return {at, at + std::min({limit - at, slice_left, batch_chunks_})};
}

void BlockSender::advance(std::uint32_t subgroup, std::uint32_t accepted) {
  cursors_[subgroup] += accepted;
  // Each segment of the block has one slice for each subgroup. After its slice of a segment, a
  // subgroup continues with its slice of the next segment.
  const std::uint32_t in_segment =
      (cursors_[subgroup] - block().psns.first) % layout_.segment_chunks();
  const std::uint32_t slice_end =
      (subgroup + 1) * layout_.slice_chunks() % layout_.segment_chunks();
  if (accepted > 0 && in_segment == slice_end) {
    cursors_[subgroup] += layout_.segment_chunks() - layout_.slice_chunks();
  }
}

bool BlockSender::send(Instant now, std::uint32_t limit) {
  bool worked = false;
  for (std::uint32_t s = 0; s < layout_.subgroups() && !blocked_; ++s) {
    const Range run = next_run(s, limit);
    if (run.empty()) continue;
    if (!pace_.may_send(now)) break;
    const std::uint32_t accepted = post(s, run);
    advance(s, accepted);
    pace_.sent(now, std::uint64_t{accepted} * layout_.chunk_bytes());
    counters_.chunks_sent += accepted;
    worked |= accepted > 0;
  }
  return worked;
}

bool BlockSender::send_again() {
  bool worked = false;
  while (!again_.empty() && !blocked_) {
    Range& range = again_.back();
    const std::uint32_t slice = layout_.slice_chunks();
    const std::uint32_t in_slice = slice - (range.first - block().psns.first) % slice;
    const Range run{range.first, std::min(range.last, range.first + in_slice)};
    const std::uint32_t accepted = post(layout_.subgroup_of(block(), run.first), run);
    counters_.chunks_retransmitted += accepted;
    counters_.bytes_retransmitted += layout_.bytes_of(block(), {run.first, run.first + accepted});
    range.first += accepted;
    if (range.empty()) again_.pop_back();
    worked |= accepted > 0;
  }
  return worked;
}

void BlockSender::send_tail_probe() {
  for (std::uint32_t s = 0; s < layout_.subgroups(); ++s) {
    std::uint32_t last = std::min(block().psns.last, cursors_[s]);
    while (last > block().psns.first && layout_.subgroup_of(block(), last - 1) != s) --last;
    if (last == block().psns.first) continue;
    again({last - 1, last});
    ++counters_.tail_probes;
  }
}

std::uint32_t BlockSender::lowest_unsent() const {
  return std::min(*std::min_element(cursors_.begin(), cursors_.end()), block().psns.last);
}

std::uint64_t BlockSender::unsent_bytes() const {
  std::uint64_t unsent = 0;
  for (std::uint32_t s = 0; s < layout_.subgroups(); ++s) {
    unsent += endpoint_.multicast(s).unsent_bytes();
  }
  return unsent;
}

bool BlockSender::reads_posted() const {
  for (std::uint32_t s = 0; s < layout_.subgroups(); ++s) {
    if (endpoint_.multicast(s).reads_posted()) return true;
  }
  return false;
}

}  // namespace tutti::engine
