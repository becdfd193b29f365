// UC multicast over UDP ([Khalilov24] 5.2): a chunk is one message of several datagrams, its
// fragments, which are received directly to their destination.
//
// A message leaves as one segmented send. The receiver peeks at the first header in the socket and
// asks the resolver for the message's destination. One receive then scatters the payloads to that
// destination and the headers to a side buffer. Small pieces, and datagrams that do not match this
// layout, are received into a side buffer and then copied.
//
// Placed bytes are valid only once the tag of the whole message, computed in place, is verified.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/ip/datagram_batch.hpp"
#include "device/ip/multicast/multicast_queue_pair.hpp"
#include "device/ip/multicast/waiting_message.hpp"
#include "device/message_destination.hpp"
#include "wire/message_assembly.hpp"
#include "wire/uc_fragment.hpp"

namespace tutti::device::ip {

class UcQueuePair final : public IpMulticastQueuePair {
 public:
  UcQueuePair(const GroupSettings& settings, std::uint32_t subgroup, bool offload);

  Result<std::uint32_t> post(const ChunkRun& run) override;
  std::size_t poll(std::span<ReceivedChunk> chunks) override;
  bool set_resolver(PlacementResolver* resolver) override {
    resolver_ = resolver;
    return true;
  }
  void set_fragment_bytes(std::uint32_t bytes) override { fragment_bytes_ = bytes; }
  void add_to(EndpointCounters& counters) const override;

 private:
  /// One poll returns at most this many messages.
  static constexpr std::size_t kMaxMessages = 16;
  static constexpr std::size_t kMaxFragments = DatagramSender::kMaxBatch;
  /// At most this many source ranks have a staging area for messages of collectives that this rank
  /// has not begun. A further source rank takes over the oldest area.
  static constexpr std::size_t kStagings = 16;

  /// The state of the message that is arriving from one source rank.
  struct Source : MessageDestination {
    wire::MessageAssembly assembly;
    /// Index of the staging area for this source rank's messages; valid only while the area's
    /// `owner` is this source rank.
    std::size_t staging = 0;
  };
  struct Staging {
    Rank owner = kNoRank;
    std::vector<std::byte> bytes;
  };
  /// The messages that the present poll has collected so far.
  struct Batch {
    std::span<ReceivedChunk> chunks;
    std::size_t filled = 0;
    std::size_t bytes = 0;
    bool over = false;

    bool holds(const wire::Header& message) const;
  };
  struct Counts {
    SingleWriterCounter completed;
    SingleWriterCounter gapped;
    SingleWriterCounter fragments;
    SingleWriterCounter direct;
  };

  void add_message(std::uint32_t epoch, std::uint32_t psn, std::span<const std::byte> message);
  bool joins(std::size_t message_bytes);
  std::size_t fragments_of(std::size_t message_bytes) const {
    return (message_bytes + fragment_bytes_ - 1) / fragment_bytes_;
  }

  bool receive(Batch& batch);
  bool receive_in_place(const WaitingMessage& waiting, Batch& batch);
  std::size_t foresee(const WaitingMessage& waiting, const wire::UcFragment& first, std::byte* at);
  void check_foreseen(const WaitingMessage& waiting, const wire::UcFragment& first,
                      std::size_t foreseen, std::size_t received_bytes, Batch& batch);
  void put_aside(std::size_t from, std::size_t foreseen, std::size_t stride,
                 std::size_t received_bytes);
  std::optional<std::span<const std::byte>> next_aside();
  void take_aside(Batch& batch);
  void take(std::span<const std::byte> datagram, Batch& batch);
  std::byte* admit(const std::byte* header, const wire::UcFragment& fragment);
  std::byte* place_of(Source& source, const wire::UcFragment& fragment, bool begins);
  std::byte* stage(Source& source, const wire::UcFragment& fragment);
  void count_fragment(bool direct);
  void placed(Source& source, const wire::UcFragment& fragment, Batch& batch);
  Source& source_of(const wire::UcFragment& fragment) {
    return sources_[index(fragment.message.source)];
  }

  PlacementResolver* resolver_ = nullptr;
  std::uint32_t fragment_bytes_ = 0;
  std::vector<Source> sources_;
  std::array<Staging, kStagings> stagings_;
  std::size_t next_staging_ = 0;
  std::uint64_t polls_ = 0;

  // Datagrams that were received but not handled yet, in `aside_` or `flat_`. If `held_` is not
  // empty, it refers to one of these datagrams, which is handled first.
  DatagramBatch flat_;
  std::unique_ptr<std::byte[]> aside_;
  std::span<const std::byte> aside_left_{};
  std::size_t aside_datagram_ = 0;
  std::span<const std::byte> held_{};
  SocketAddress aside_sender_;
  /// Source address of the datagram that `next_aside` returned last; `held_` may still refer to
  /// this datagram.
  const SocketAddress* sender_ = &aside_sender_;

  std::array<std::array<std::byte, wire::kFragmentHeaderBytes>, kMaxFragments> headers_{};
  std::array<iovec, 2 * kMaxFragments + 1> vectors_{};
  std::array<std::array<std::byte, wire::kHeaderBytes>, kMaxMessages> message_headers_{};
  Counts counts_;
};

}  // namespace tutti::device::ip
