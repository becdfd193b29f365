// An endpoint without a network, to measure the engine's receive path alone. Its multicast queue
// pair delivers datagrams from memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "wire/header.hpp"
#include "wire/integrity.hpp"

namespace tutti::bench {

/// Datagrams in memory as a receive call leaves them, each with header and payload.
class Staging {
 public:
  /// Makes the `count` chunks of a block that rank `source` multicasts. Payloads repeat after
  /// `ring` chunks, so that they stay in the cache like data that the kernel has just copied; if
  /// `ring` equals `count`, no payload repeats.
  Staging(const wire::Integrity& integrity, Rank source, std::uint32_t epoch, std::uint32_t count,
          std::uint32_t ring, std::uint32_t chunk_bytes)
      : count_(count), ring_(ring), chunk_bytes_(chunk_bytes) {
    payloads_.resize(std::size_t{ring} * stride());
    for (std::size_t i = 0; i < payloads_.size(); ++i) {
      payloads_[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    }
    if (ring_ != count_) headers_.resize(std::size_t{count} * wire::kHeaderBytes);
    for (std::uint32_t psn = 0; psn < count; ++psn) {
      std::byte* header = mutable_header(psn);
      wire::encode({.kind = wire::PacketKind::chunk, .source = source, .epoch = epoch, .psn = psn},
                   header);
      wire::encode_tag(integrity.tag(header, payload(psn)), header);
    }
  }

  std::uint32_t count() const { return count_; }
  const std::byte* header(std::uint32_t psn) const {
    return ring_ == count_ ? payloads_.data() + psn * stride()
                           : headers_.data() + std::size_t{psn} * wire::kHeaderBytes;
  }
  std::span<const std::byte> payload(std::uint32_t psn) const {
    return {payloads_.data() + psn % ring_ * stride() + wire::kHeaderBytes, chunk_bytes_};
  }

 private:
  std::size_t stride() const { return wire::kHeaderBytes + chunk_bytes_; }
  std::byte* mutable_header(std::uint32_t psn) { return const_cast<std::byte*>(header(psn)); }

  std::uint32_t count_;
  std::uint32_t ring_;
  std::size_t chunk_bytes_;
  std::vector<std::byte> payloads_;
  std::vector<std::byte> headers_;
};

/// A queue pair that treats a datagram as the device `ip` does after the kernel has delivered the
/// datagram.
class StagedQueuePair final : public device::MulticastQueuePair {
 public:
  StagedQueuePair(const Staging& staging, wire::Integrity integrity)
      : staging_(staging), integrity_(std::move(integrity)) {}

  void open() { open_ = true; }
  bool drained() const { return next_ == staging_.count(); }
  std::uint64_t rejected() const { return rejected_; }

  Result<std::uint32_t> post(const device::ChunkRun&) override { return std::uint32_t{0}; }
  std::uint64_t unsent_bytes() override { return 0; }
  std::size_t poll(std::span<device::ReceivedChunk> chunks) override {
    if (!open_) return 0;
    std::size_t filled = 0;
    for (; filled < chunks.size() && next_ < staging_.count(); ++next_) {
      const std::byte* bytes = staging_.header(next_);
      const auto header = wire::decode({bytes, wire::kHeaderBytes});
      if (!header || header->communicator != 0 || header->subgroup != 0 ||
          index(header->source) >= 2 || header->kind != wire::PacketKind::chunk) {
        ++rejected_;
        continue;
      }
      chunks[filled++] = {header->epoch, header->psn, header->source, staging_.payload(next_),
                          bytes};
    }
    return filled;
  }
  bool copy_and_verify(const device::ReceivedChunk& chunk, std::byte* destination) override {
    std::uint64_t expected = 0;
    std::memcpy(&expected, chunk.header + wire::kTagOffset, sizeof expected);
    if (integrity_.copy_and_tag(destination, chunk.header, chunk.payload) == expected) return true;
    ++rejected_;
    return false;
  }
  void release() override {}
  Status post_probe(std::uint32_t, std::uint32_t) override { return {}; }

 private:
  const Staging& staging_;
  wire::Integrity integrity_;
  std::uint32_t next_ = 0;
  std::uint64_t rejected_ = 0;
  bool open_ = false;
};

/// The endpoint of rank 0 in a job of two ranks. It discards everything that is sent.
class StagedEndpoint final : public device::Endpoint {
 public:
  StagedEndpoint(const Staging& staging, const wire::Integrity& integrity,
                 std::uint32_t chunk_bytes)
      : pair_(staging, integrity) {
    capabilities_.max_chunk_bytes = chunk_bytes;
    capabilities_.receive_window_bytes = std::uint64_t{1} << 40;
    capabilities_.max_send_batch = 64;
    capabilities_.immediate_bits = 64;
  }

  StagedQueuePair& staged() { return pair_; }

  const device::Capabilities& capabilities() const override { return capabilities_; }
  std::vector<std::byte> address() const override { return {}; }
  Status connect(std::span<const std::vector<std::byte>>) override { return {}; }
  std::uint32_t subgroup_count() const override { return 1; }
  device::MulticastQueuePair& multicast(std::uint32_t) override { return pair_; }
  Result<device::MemoryKey> register_memory(std::span<std::byte>) override {
    return device::MemoryKey{1};
  }
  void deregister_memory(device::MemoryKey) override {}
  std::size_t max_message_bytes() const override { return 4096; }
  Status post(Instant, const device::WorkRequest&) override { return {}; }
  std::size_t poll(Instant, std::span<device::Completion>) override { return 0; }
  void watch(Rank, bool) override {}
  Instant next_deadline() const override { return kNever; }
  bool quiet() const override { return true; }
  int wait_descriptor() const override { return -1; }
  void notify_when_sendable(bool) override {}
  device::EndpointCounters counters() const override { return {}; }

 private:
  device::Capabilities capabilities_;
  StagedQueuePair pair_;
};

}  // namespace tutti::bench
