#include "sim/device/multicast_queue.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/error.hpp"
#include "base/random.hpp"
#include "wire/header.hpp"

namespace tutti::device::sim {

namespace {

constexpr std::uint32_t kWords = 8;

/// Computes a tag over header and payload. It stands for the CRC that the hardware of a real NIC
/// checks.
std::uint64_t tag_of(const std::byte* header, std::span<const std::byte> payload) {
  std::uint64_t state[3];
  static_assert(sizeof state == wire::kTagOffset);
  std::memcpy(state, header, sizeof state);
  std::uint64_t tag = mix(state[0] ^ mix(state[1] + mix(state[2] + payload.size())));
  std::size_t at = 0;
  for (; at + kWords <= payload.size(); at += kWords) {
    std::uint64_t word = 0;
    std::memcpy(&word, payload.data() + at, kWords);
    tag = (tag ^ word) * 0x9e37'79b9'7f4a'7c15u;
    tag ^= tag >> 29;
  }
  std::uint64_t rest = 0;
  if (at < payload.size()) std::memcpy(&rest, payload.data() + at, payload.size() - at);
  return mix(tag ^ rest);
}

}  // namespace

Payload* make_chunk(PayloadStore& payloads, const wire::Header& header,
                    std::span<const std::byte> bytes, std::uint32_t references) {
  Payload* payload = payloads.allocate(wire::kHeaderBytes + bytes.size(), references);
  wire::encode(header, payload->data());
  if (!bytes.empty()) {
    std::memcpy(payload->data() + wire::kHeaderBytes, bytes.data(), bytes.size());
  }
  wire::encode_tag(tag_of(payload->data(), bytes), payload->data());
  return payload;
}

Result<std::uint32_t> SimMulticastQueuePair::post(const ChunkRun& run) {
  const NicSettings& settings = nic_->settings;
  if (run.chunk_bytes == 0 || run.chunk_bytes > settings.chunk_bytes) {
    return failure(
        Code::invalid_argument,
        "a chunk of {} bytes does not fit a packet of the simulated NIC: use chunks of 1 "
        "to {} bytes",
        run.chunk_bytes, settings.chunk_bytes);
  }
  const std::uint64_t count = (run.data.size() + run.chunk_bytes - 1) / run.chunk_bytes;
  const std::uint32_t room = settings.send_queue_chunks - queued_chunks_;
  const auto accepted = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, room));
  EndpointCounters& counters = nic_->counters;
  ++counters.send_calls;
  if (accepted < count) ++counters.send_queue_full;
  if (accepted == 0) return accepted;
  const std::size_t bytes =
      std::min<std::size_t>(run.data.size(), std::size_t{accepted} * run.chunk_bytes);
  sends_.push_back({.epoch = run.epoch,
                    .first_psn = run.first_psn,
                    .count = accepted,
                    .chunk_bytes = run.chunk_bytes,
                    .data = run.data.first(bytes)});
  queued_chunks_ += accepted;
  queued_bytes_ += bytes;
  counters.multicast_datagrams_sent += accepted;
  counters.multicast_bytes_sent += bytes;
  port_->ready(subgroup_);
  return accepted;
}

Status SimMulticastQueuePair::post_probe(std::uint32_t attempt, std::uint32_t /*bytes*/) {
  sends_.push_back({.epoch = attempt, .first_psn = 0, .count = 0, .chunk_bytes = 0, .data = {}});
  port_->ready(subgroup_);
  return {};
}

MulticastBurst SimMulticastQueuePair::next_burst(std::uint32_t limit) {
  MulticastBurst& run = sends_.front();
  MulticastBurst burst = run;
  burst.count = std::min(run.count, limit);
  const std::size_t bytes =
      std::min<std::size_t>(run.data.size(), std::size_t{burst.count} * run.chunk_bytes);
  burst.data = run.data.first(bytes);
  run.first_psn += burst.count;
  run.count -= burst.count;
  run.data = run.data.subspan(bytes);
  queued_chunks_ -= burst.count;
  queued_bytes_ -= bytes;
  if (run.count == 0) sends_.pop_front();
  return burst;
}

bool SimMulticastQueuePair::sends_from(std::span<const std::byte> memory) const {
  for (std::uint32_t i = 0; i < sends_.size(); ++i) {
    const std::byte* at = sends_[i].data.data();
    const std::less<const std::byte*> before;
    if (!sends_[i].data.empty() && before(at, memory.data() + memory.size()) &&
        before(memory.data(), at + sends_[i].data.size())) {
      return true;
    }
  }
  return false;
}

std::uint64_t SimMulticastQueuePair::unsent_bytes() {
  return queued_bytes_ + (port_->now() < departs_at_ ? departing_bytes_ : 0);
}

bool SimMulticastQueuePair::arrive(const StagedChunk& chunk) {
  if (staged_.size() >= nic_->settings.staging_chunks) {
    ++nic_->counters.kernel_drops;
    nic_->payloads->release(chunk.payload);
    return false;
  }
  staged_.push_back(chunk);
  return true;
}

std::size_t SimMulticastQueuePair::poll(std::span<ReceivedChunk> chunks) {
  const Instant now = port_->now();
  std::size_t filled = 0;
  while (filled < chunks.size() && lent_ < staged_.size() && staged_[lent_].visible <= now) {
    StagedChunk& staged = staged_[lent_++];
    ReceivedChunk& chunk = chunks[filled++];
    chunk.epoch = staged.epoch;
    chunk.psn = staged.psn;
    chunk.source = staged.source;
    if (staged.payload != nullptr) {
      chunk.header = staged.payload->data();
      chunk.payload = staged.payload->bytes().subspan(wire::kHeaderBytes);
    } else {
      chunk.header = nullptr;
      // If packets carry no user data, any non-null address serves as the address of the payload.
      chunk.payload = {reinterpret_cast<const std::byte*>(this), staged.size_bytes};
    }
  }
  nic_->counters.multicast_datagrams_received += filled;
  return filled;
}

void SimMulticastQueuePair::release() {
  PayloadStore& payloads = *nic_->payloads;
  for (std::uint32_t i = 0; i < lent_; ++i) payloads.release(staged_[i].payload);
  staged_.drop_front(lent_);
  lent_ = 0;
}

bool SimMulticastQueuePair::copy_and_verify(const ReceivedChunk& chunk, std::byte* destination) {
  if (chunk.header == nullptr) {
    if (destination != nullptr) {
      nic_->placed_check += placement_check(destination, chunk.payload.size());
    }
  } else {
    // The bytes are copied before they are verified, as by a real receiver with staging.
    if (destination != nullptr && !chunk.payload.empty()) {
      std::memcpy(destination, chunk.payload.data(), chunk.payload.size());
    }
    if (tag_of(chunk.header, chunk.payload) != wire::tag_of(chunk.header)) {
      ++nic_->counters.rejected_integrity;
      return false;
    }
  }
  nic_->counters.multicast_bytes_received += chunk.payload.size();
  return true;
}

void SimMulticastQueuePair::clear() {
  PayloadStore& payloads = *nic_->payloads;
  for (std::uint32_t i = 0; i < staged_.size(); ++i) payloads.release(staged_[i].payload);
  staged_.clear();
  sends_.clear();
  queued_chunks_ = lent_ = 0;
  queued_bytes_ = departing_bytes_ = 0;
}

}  // namespace tutti::device::sim
