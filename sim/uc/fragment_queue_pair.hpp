// UC multicast ([Khalilov24] 5.2) on top of the UD multicast of another queue pair. Each fragment
// of a message is a chunk of that queue pair, and a message arrives only if its fragments arrive in
// order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/message_destination.hpp"
#include "wire/header.hpp"
#include "wire/message_assembly.hpp"
#include "wire/tag_keys.hpp"
#include "wire/uc_fragment.hpp"

namespace tutti::device::sim {

/// The sizes of the messages of one communicator.
struct FragmentShape {
  /// Payload bytes of a fragment; the last fragment of a message may be shorter.
  std::uint32_t fragment_bytes = 0;
  std::uint32_t fragments = 0;  ///< a message has at most this many fragments
};

class FragmentQueuePair final : public MulticastQueuePair {
 public:
  /// The queue pair of rank `me` of `ranks` ranks. `inner` must outlive this object, and a chunk of
  /// `inner` must have room for a fragment and its header.
  FragmentQueuePair(MulticastQueuePair& inner, Rank me, std::uint32_t ranks,
                    const FragmentShape& shape)
      : inner_(inner), me_(me), shape_(shape), sources_(ranks) {}

  Result<std::uint32_t> post(const ChunkRun& run) override;
  std::uint64_t unsent_bytes() override { return inner_.unsent_bytes(); }
  bool reads_posted() override { return false; }  ///< `post` copies
  /// Returns at most one message, because the next message of the same source would overwrite the
  /// memory of this one.
  std::size_t poll(std::span<ReceivedChunk> chunks) override;
  bool copy_and_verify(const ReceivedChunk& chunk, std::byte* destination) override;
  void release() override {}
  bool set_resolver(PlacementResolver* resolver) override {
    resolver_ = resolver;
    return true;
  }
  Instant next_arrival(Instant now) override { return inner_.next_arrival(now); }
  Status post_probe(std::uint32_t attempt, std::uint32_t bytes) override {
    return inner_.post_probe(attempt, bytes);
  }

 private:
  /// The message that is arriving from one rank.
  struct Source : MessageDestination {
    wire::MessageAssembly assembly;
    std::vector<std::byte> staging;
  };

  std::vector<std::byte> framed(std::uint32_t epoch, std::uint32_t psn,
                                std::span<const std::byte> message);
  bool take(const ReceivedChunk& chunk, ReceivedChunk& message);
  void find_place(Source& source, const wire::UcFragment& fragment, bool begins);

  MulticastQueuePair& inner_;
  Rank me_;
  FragmentShape shape_;
  PlacementResolver* resolver_ = nullptr;
  wire::TagKeys keys_;
  std::uint64_t sent_ = 0;  ///< number of messages posted so far
  std::deque<std::vector<std::byte>> sending_;
  std::vector<Source> sources_;
  std::vector<std::byte> frame_;  ///< fragment that is being handled
  std::uint64_t polls_ = 0;
};

}  // namespace tutti::device::sim
