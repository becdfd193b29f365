// UC multicast over UDP (K10): a chunk is one message of several datagrams, its segments, and goes
// straight to its place.
//
// A message leaves as one segmented send. On the way in, the first header that waits in the socket
// is looked at; the guide says where its message belongs, and one receive scatters the payloads
// there and the headers aside. What that layout foresaw wrongly, because segments are missing or
// another message follows, and what came in small pieces, is received aside and copied.
//
// Bytes in place are not there until the whole message's tag, taken over what lies in place, holds.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/ip/datagram_batch.hpp"
#include "device/ip/multicast_queue_pair.hpp"
#include "device/ip/uc/message_assembly.hpp"
#include "device/ip/uc/waiting_message.hpp"
#include "wire/segment.hpp"

namespace tutti::device::ip {

class UcQueuePair final : public IpMulticastQueuePair {
 public:
  UcQueuePair(const GroupSettings& settings, std::uint32_t subgroup, wire::Integrity integrity,
              bool offload);

  Result<std::uint32_t> post(const ChunkRun& run) override;
  std::size_t poll(std::span<ReceivedChunk> chunks) override;
  bool set_resolver(PlacementResolver* guide) override {
    guide_ = guide;
    return true;
  }
  void set_segment_bytes(std::uint32_t bytes) override { segment_bytes_ = bytes; }
  void add_to(EndpointCounters& counters) const override;

 private:
  /// Messages that one poll hands out.
  static constexpr std::size_t kMaxMessages = 16;
  static constexpr std::size_t kMaxSegments = DatagramSender::kMaxBatch;
  /// Messages of collectives not begun here that may be under way at once; another takes the place
  /// of the oldest.
  static constexpr std::size_t kStagings = 16;

  /// What comes from one rank.
  struct Source {
    MessageAssembly assembly;
    std::byte* at = nullptr;     ///< where its message goes, as the poll `asked_in` was told
    std::uint64_t asked_in = 0;  ///< number of a poll
    bool staged = false;
    std::size_t staging = 0;  ///< which one, as long as that one's owner says so
  };
  struct Staging {
    Rank owner = kNoRank;
    std::vector<std::byte> bytes;
  };
  /// What one poll has handed out so far.
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
    SingleWriterCounter segments;
    SingleWriterCounter direct;
  };

  void add_message(std::uint32_t epoch, std::uint32_t psn, std::span<const std::byte> message);
  bool joins(std::size_t message_bytes);
  std::size_t segments_of(std::size_t message_bytes) const {
    return (message_bytes + segment_bytes_ - 1) / segment_bytes_;
  }

  bool receive(Batch& batch);
  bool receive_in_place(const WaitingMessage& waiting, Batch& batch);
  std::size_t foresee(const WaitingMessage& waiting, const wire::Segment& first, std::byte* at);
  void check_foreseen(const WaitingMessage& waiting, const wire::Segment& first,
                      std::size_t foreseen, std::size_t received_bytes, Batch& batch);
  void put_aside(std::size_t from, std::size_t foreseen, std::size_t stride,
                 std::size_t received_bytes);
  std::span<const std::byte> next_aside();
  void take_aside(Batch& batch);
  void take(std::span<const std::byte> datagram, Batch& batch);
  std::byte* admit(const std::byte* header, const wire::Segment& segment);
  std::byte* place_of(Source& source, const wire::Segment& segment, bool begins);
  std::byte* stage(Source& source, const wire::Segment& segment);
  void count_segment(bool direct);
  void placed(Source& source, const wire::Segment& segment, Batch& batch);
  Source& source_of(const wire::Segment& segment) {
    return sources_[index(segment.message.source)];
  }

  PlacementResolver* guide_ = nullptr;
  std::uint32_t segment_bytes_ = 0;
  std::vector<Source> sources_;
  std::array<Staging, kStagings> stagings_;
  std::size_t next_staging_ = 0;
  std::uint64_t polls_ = 0;

  // What was received and not looked at yet: of `aside_`, or of `flat_`; `held_` is first.
  DatagramBatch flat_;
  std::unique_ptr<std::byte[]> aside_;
  std::span<const std::byte> aside_left_{};
  std::size_t aside_datagram_ = 0;
  std::span<const std::byte> held_{};

  std::array<std::array<std::byte, wire::kSegmentHeaderBytes>, kMaxSegments> headers_{};
  std::array<iovec, 2 * kMaxSegments + 1> vectors_{};
  std::array<std::array<std::byte, wire::kHeaderBytes>, kMaxMessages> message_headers_{};
  Counts counts_;
};

}  // namespace tutti::device::ip
