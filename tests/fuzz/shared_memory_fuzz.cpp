// Fuzzes the readers of shared memory that a peer writes. Frames and chunks that a reader returns
// lie within their ring, and frames of a correct writer are read unchanged.
#include <algorithm>
#include <array>
#include <vector>

#include "device/host/multicast_queue_pair.hpp"
#include "device/host/segment.hpp"
#include "fuzz.hpp"

namespace {

using namespace tutti;                // NOLINT: no other file includes this source file
using namespace tutti::device::host;  // NOLINT
using fuzz::Input;
using fuzz::require;

constexpr std::size_t kCapacity = 256;
constexpr std::size_t kMaxFrames = 1000;

bool within(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

void check_address(std::span<const std::byte> bytes) {
  const auto address = SegmentAddress::decode(bytes);
  if (!address.ok()) return;
  const auto again = SegmentAddress::decode(address->encode());
  require(again.ok() && again->token == address->token && again->process == address->process);
  require(again->memory == address->memory && again->bell == address->bell);
}

struct alignas(kCacheLineBytes) FrameRing {
  std::array<std::byte, frame_ring_bytes(kCapacity)> bytes{};
};

/// Reads a frame ring. Its content and its count of written bytes come from the input.
void check_hostile_frames(Input input) {
  FrameRing ring;
  const auto written = input.take<std::uint64_t>();
  reinterpret_cast<FrameRingControl*>(ring.bytes.data())->written.value.store(written);
  const auto contents = std::span(ring.bytes).subspan(sizeof(FrameRingControl));
  const auto given = input.take_bytes(kCapacity);
  std::copy(given.begin(), given.end(), contents.begin());
  FrameReader reader(ring.bytes);
  for (std::size_t i = 0; i < kMaxFrames; ++i) {
    const auto frame = reader.front();
    if (frame.empty()) {
      require(reader.broken() || reader.empty());
      return;
    }
    require(within(frame, contents));
    reader.pop(frame.size());
  }
  require(false);
}

/// Writes frames to a ring, with lengths from the input, and requires that they are read unchanged.
void check_proper_frames(Input input) {
  FrameRing ring;
  FrameWriter writer(ring.bytes);
  FrameReader reader(ring.bytes);
  std::vector<std::vector<std::byte>> under_way;
  const auto read_one = [&] {
    const auto frame = reader.front();
    require(
        std::equal(frame.begin(), frame.end(), under_way.front().begin(), under_way.front().end()));
    reader.pop(frame.size());
    under_way.erase(under_way.begin());
  };
  while (!input.empty()) {
    const std::size_t bytes = 1 + input.take<std::uint8_t>() % (kCapacity / 4);
    std::vector<std::byte> frame(bytes, std::byte(under_way.size() + bytes));
    std::byte* place = writer.reserve(bytes);
    while (place == nullptr && !under_way.empty()) {
      read_one();
      place = writer.reserve(bytes);
    }
    require(place != nullptr);
    std::copy(frame.begin(), frame.end(), place);
    writer.commit();
    under_way.push_back(std::move(frame));
    if (bytes % 3 == 0) read_one();
  }
  while (!under_way.empty()) read_one();
  require(reader.empty() && !reader.broken());
}

/// Reads a peer's chunk ring. Its chunk heads and its count of written chunks come from the input.
void check_hostile_chunks(Input input) {
  static const SegmentShape shape{.ranks = 2, .subgroups = 1};
  static std::vector<Segment> segments = [] {
    std::vector<Segment> made;
    for (int rank = 0; rank < 2; ++rank) {
      auto segment = Segment::create(shape);
      require(segment.ok());
      made.push_back(std::move(*segment));
    }
    return made;
  }();
  const ChunkRing peers = segments[1].chunks(0);
  const std::uint32_t slots = peers.shape().slots;
  const auto written = input.take<std::uint64_t>();
  peers.written().store(written);
  peers.read_by(rank_of(0)).store(0);
  for (std::uint64_t slot = 0; slot < std::min<std::uint64_t>(written, slots); ++slot) {
    const ChunkHead head{.epoch = input.take<std::uint32_t>(),
                         .psn = input.take<std::uint32_t>(),
                         .bytes = input.take<std::uint32_t>(),
                         .probe = input.take<std::uint8_t>() % 2u};
    std::memcpy(peers.slot(slot), &head, sizeof head);
  }
  HostMulticastQueuePair pair(rank_of(0), 0, segments);
  pair.connect();
  std::array<device::ReceivedChunk, 16> chunks;
  std::vector<std::byte> destination(peers.shape().chunk_bytes);
  while (const std::size_t count = pair.poll(chunks)) {
    for (const device::ReceivedChunk& chunk : std::span(chunks).first(count)) {
      require(chunk.source == rank_of(1) && chunk.payload.size() <= destination.size());
      require(pair.copy_and_verify(chunk, destination.data()));
      require(std::equal(chunk.payload.begin(), chunk.payload.end(), destination.begin()));
    }
    pair.release();
  }
  require(!pair.pending() && pair.take_probes().size() <= slots);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check_address(bytes);
  check_hostile_frames(Input(bytes));
  check_proper_frames(Input(bytes.first(std::min<std::size_t>(size, 4096))));
  check_hostile_chunks(Input(bytes));
  return 0;
}
