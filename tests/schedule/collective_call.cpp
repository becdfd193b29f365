#include "collective_call.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.hpp"

namespace tutti::schedule {

namespace {

using Bytes = std::vector<std::byte>;

/// A reduction that sums 8-byte words.
void add_words(std::span<const std::byte> left, std::span<const std::byte> right,
               std::span<std::byte> target) {
  for (std::size_t at = 0; at + 8 <= target.size(); at += 8) {
    std::uint64_t l = 0;
    std::uint64_t r = 0;
    std::memcpy(&l, left.data() + at, 8);
    std::memcpy(&r, right.data() + at, 8);
    l += r;
    std::memcpy(target.data() + at, &l, 8);
  }
}

/// A reduction that composes maps x -> a x + b of 32-bit words, which is associative but not
/// commutative.
void compose_maps(std::span<const std::byte> left, std::span<const std::byte> right,
                  std::span<std::byte> target) {
  for (std::size_t at = 0; at + 8 <= target.size(); at += 8) {
    std::uint32_t l[2];
    std::uint32_t r[2];
    std::memcpy(l, left.data() + at, 8);
    std::memcpy(r, right.data() + at, 8);
    const std::uint32_t composed[2] = {l[0] * r[0], l[1] * r[0] + r[1]};
    std::memcpy(target.data() + at, composed, 8);
  }
}

class Call {
 public:
  Call(std::span<const Schedule> schedules, const CallOptions& options)
      : schedules_(schedules),
        options_(options),
        purpose_(schedules.front().purpose()),
        combine_(options.ordered_fold ? compose_maps : add_words) {
    lay_out();
  }

  Status run() {
    std::vector<Shape> shapes;
    for (std::uint32_t r = 0; r < purpose_.ranks; ++r) shapes.push_back(shape_of(r));
    for (std::uint32_t r = 0; r < purpose_.ranks; ++r) give_contribution(r, shapes[r]);
    Interpreter interpreter(schedules_, shapes, memory_, combine_, options_.seed);
    if (Status status = interpreter.run(); !status) return status;
    for (std::uint32_t r = 0; r < purpose_.ranks; ++r) {
      if (Status status = check_rank(r, shapes[r]); !status) return status;
    }
    return {};
  }

 private:
  /// The size and the offset of each block in a rank's buffer, and the size of the buffer.
  struct Layout {
    std::vector<std::uint64_t> sizes;
    std::vector<std::uint64_t> offsets;
    std::uint64_t bytes = 0;
  };

  /// Size of the block that goes from one rank to another. It depends on one of the two ranks only,
  /// except in an Alltoallv.
  std::uint64_t block_bytes(std::uint32_t from, std::uint32_t to) const {
    if (!options_.varying) return options_.block_bytes;
    const Collective collective = purpose_.collective;
    const bool by_source =
        collective == Collective::allgatherv || collective == Collective::gatherv;
    if (by_source) to = 0;
    if (!by_source && collective != Collective::alltoallv) from = 0;
    const std::uint64_t elements = options_.block_bytes / options_.element_bytes;
    return draw(options_.seed, from, to, 7) % (2 * elements + 1) * options_.element_bytes;
  }

  Layout layout_of(std::uint32_t rank, Buffer buffer) const {
    const std::uint32_t blocks = schedules_[rank].blocks(buffer);
    Layout layout;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      const std::uint32_t other = blocks == 1 ? rank : b;
      const bool sends = buffer == Buffer::send;
      if (options_.varying && blocks > 1) layout.bytes += draw(options_.seed, rank, b, 1) % 5;
      layout.offsets.push_back(layout.bytes);
      layout.sizes.push_back(sends ? block_bytes(rank, other) : block_bytes(other, rank));
      layout.bytes += layout.sizes.back();
    }
    return layout;
  }

  void lay_out() {
    memory_.resize(purpose_.ranks);
    layouts_.resize(purpose_.ranks);
    for (std::uint32_t r = 0; r < purpose_.ranks; ++r) {
      for (Buffer buffer : {Buffer::send, Buffer::receive, Buffer::scratch}) {
        Layout& layout = layouts_[r][static_cast<std::size_t>(buffer)];
        layout = layout_of(r, buffer);
        memory_[r].of(buffer).assign(layout.bytes, kUntouched);
      }
    }
  }

  BlockSizes blocks_of(std::uint32_t rank, Buffer buffer) const {
    const Layout& layout = layouts_[rank][static_cast<std::size_t>(buffer)];
    return {0, layout.sizes, layout.offsets};
  }

  Shape shape_of(std::uint32_t rank) const {
    Shape shape = options_.varying ? Shape::varying(blocks_of(rank, Buffer::send),
                                                    blocks_of(rank, Buffer::receive))
                                   : Shape::uniform(options_.block_bytes, options_.element_bytes);
    shape.element_bytes = options_.element_bytes;
    shape.in_place = options_.in_place;
    return shape;
  }

  /// The bytes that `rank` contributes: its block for rank `block`, or its only block.
  Bytes contribution(std::uint32_t rank, std::uint32_t block) const {
    Bytes bytes(block_bytes(rank, block));
    for (std::size_t at = 0; at < bytes.size(); ++at)
      bytes[at] = static_cast<std::byte>(draw(options_.seed, rank, block, at));
    return bytes;
  }

  std::span<std::byte> place(std::uint32_t rank, const BufferSlice& slice, const Shape& shape) {
    const Alias alias = shape.in_place ? in_place_alias(schedules_[rank].purpose()) : Alias();
    const Result<Extent> extent = resolve(slice, shape, alias);
    return std::span(memory_[rank].of(extent->buffer))
        .subspan(extent->offset_bytes, extent->size_bytes);
  }

  void give_contribution(std::uint32_t rank, const Shape& shape) {
    const Schedule& schedule = schedules_[rank];
    for (std::uint32_t b = 0; b < schedule.blocks(Buffer::send); ++b) {
      const Bytes bytes = contribution(rank, b);
      std::copy(bytes.begin(), bytes.end(), place(rank, block_of(Buffer::send, b), shape).begin());
    }
    if (purpose_.collective != Collective::broadcast || rank != index(purpose_.root)) return;
    const Bytes bytes = contribution(rank, 0);
    std::copy(bytes.begin(), bytes.end(), place(rank, block_of(Buffer::receive, 0), shape).begin());
  }

  Bytes fold_of_all(std::uint32_t block) const {
    Bytes sum = contribution(0, block);
    for (std::uint32_t r = 1; r < purpose_.ranks; ++r) combine_(sum, contribution(r, block), sum);
    return sum;
  }

  /// The bytes that a rank must have at the end, by the definition of the collective.
  Bytes expected(std::uint32_t rank, std::uint32_t block) const {
    switch (purpose_.collective) {
      case Collective::broadcast:
        return contribution(index(purpose_.root), 0);
      case Collective::scatter:
      case Collective::scatterv:
        return contribution(index(purpose_.root), rank);
      case Collective::alltoall:
      case Collective::alltoallv:
        return contribution(block, rank);
      case Collective::reduce_scatter:
      case Collective::reduce_scatterv:
        return fold_of_all(rank);
      case Collective::reduce:
      case Collective::allreduce:
        return fold_of_all(0);
      default:
        return contribution(block, 0);
    }
  }

  Status check_rank(std::uint32_t rank, const Shape& shape) {
    const std::uint32_t blocks = schedules_[rank].blocks(Buffer::receive);
    Bytes& received = memory_[rank].of(Buffer::receive);
    for (std::uint32_t b = 0; b < blocks; ++b) {
      const Bytes wanted = expected(rank, b);
      const std::span<std::byte> found = place(rank, block_of(Buffer::receive, b), shape);
      if (!std::equal(wanted.begin(), wanted.end(), found.begin(), found.end()))
        return failure(Code::internal, "rank {} ends with wrong bytes in receive[{}]", rank, b);
      if (options_.varying) std::fill(found.begin(), found.end(), kUntouched);
    }
    const bool gaps_whole =
        std::all_of(received.begin(), received.end(), [](std::byte b) { return b == kUntouched; });
    if (options_.varying && !gaps_whole)
      return failure(Code::internal, "rank {} wrote into a gap between blocks", rank);
    return {};
  }

  static constexpr std::byte kUntouched{0xa5};

  std::span<const Schedule> schedules_;
  CallOptions options_;
  const Purpose& purpose_;
  Combine combine_;
  std::vector<std::array<Layout, kBufferKinds>> layouts_;
  std::vector<Memory> memory_;
};

}  // namespace

Status call(std::span<const Schedule> schedules, const CallOptions& options) {
  return Call(schedules, options).run();
}

}  // namespace tutti::schedule
