#include "explain/plan.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "collectives/choice.hpp"
#include "device/ip/chunk_shape.hpp"
#include "device/ip/ip_options.hpp"
#include "device/rc/rc_config.hpp"
#include "device/rc/rc_frame.hpp"
#include "engine/core/settings.hpp"
#include "protocol/block_layout.hpp"
#include "protocol/credits/credit_batches.hpp"
#include "protocol/sequencer.hpp"
#include "wire/header.hpp"
#include "wire/uc_fragment.hpp"

namespace tutti::app {
using device::ip::Multicast;

namespace {

constexpr std::uint32_t kUdpBytes = 8;
constexpr std::uint32_t kIpv4Bytes = 20;
constexpr std::uint32_t kIpv6Bytes = 40;
constexpr std::uint32_t kEthernetBytes = 14;

/// Largest total size of the blocks at all ranks. Every total then fits 64 bits, although it
/// includes the headers and counts both ends of each link.
constexpr std::uint64_t kMostBytesMoved = std::uint64_t{1} << 60;

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

/// The sizes of chunks and datagrams if all ranks have the MTU and the receive window of `input`.
device::ip::ChunkShape agreed_shape(const PlanInput& input) {
  device::ip::IpOptions options;
  options.family = input.ipv6 ? AF_INET6 : AF_INET;
  options.multicast = input.multicast;
  options.max_fragment_bytes = input.segment_bytes;
  auto shape = device::ip::chunk_shape(options, input.mtu_bytes);
  if (input.multicast == Multicast::uc) {
    const std::uint32_t longest =
        device::ip::message_bytes_for_window(shape.datagram_bytes, input.window_bytes);
    shape.chunk_bytes = std::min(shape.chunk_bytes, longest);
  }
  return shape;
}

/// The number of datagrams of a block, whose last chunk may be shorter than the others.
std::uint64_t datagrams_of(const Plan& plan, std::uint64_t block_bytes) {
  const std::uint64_t whole = block_bytes / plan.chunk_bytes;
  return whole * divide_up(plan.chunk_bytes, plan.datagram_bytes) +
         divide_up(block_bytes - whole * plan.chunk_bytes, plan.datagram_bytes);
}

/// The number of messages of a ready barrier. The first 2^k ranks, with the largest possible k, run
/// recursive doubling. Each other rank exchanges two messages with one of the first ranks.
std::uint64_t barrier_messages(std::uint32_t ranks) {
  const std::uint64_t power = std::bit_floor(ranks);
  return power * static_cast<std::uint64_t>(std::countr_zero(power)) + 2 * (ranks - power);
}

std::uint32_t chains_of(const PlanInput& input, std::uint32_t chunk_bytes) {
  return std::clamp(
      input.chains, 1u,
      protocol::CreditBatches::most_chains(input.ranks, input.window_bytes / chunk_bytes));
}

/// The number of reports of consumed credit batches and of grants.
std::uint64_t credit_messages(const PlanInput& input, std::uint32_t blocks,
                              std::uint32_t chunk_bytes) {
  protocol::BlockLayout layout(chunk_bytes, 1, chunk_bytes);
  for (std::uint32_t b = 0; b < blocks; ++b) {
    if (!layout.add(rank_of(b), b * input.send_bytes, input.send_bytes)) return 0;
  }
  return protocol::CreditBatches(layout, chains_of(input, chunk_bytes),
                                 input.window_bytes / chunk_bytes,
                                 engine::Settings{}.pulses_in_flight)
      .messages(input.ranks);
}

}  // namespace

std::uint32_t header_bytes(bool ipv6, Multicast multicast) {
  const std::size_t own =
      multicast == Multicast::uc ? wire::kFragmentHeaderBytes : wire::kHeaderBytes;
  return kEthernetBytes + (ipv6 ? kIpv6Bytes : kIpv4Bytes) + kUdpBytes +
         static_cast<std::uint32_t>(own);
}

Result<Plan> plan_multicast(const PlanInput& input) {
  const bool gather = input.operation == Operation::allgather;
  const std::uint32_t blocks = gather ? input.ranks : 1;
  if (input.send_bytes > kMostBytesMoved / input.ranks / blocks) {
    return failure(Code::invalid_argument,
                   "{} bytes among {} ranks are more than {} bytes on all links: use smaller "
                   "--bytes or fewer --ranks",
                   input.send_bytes, input.ranks, kMostBytesMoved);
  }
  Plan plan;
  plan.algorithm = Algorithm::multicast;
  const device::ip::ChunkShape shape = agreed_shape(input);
  plan.chunk_bytes = shape.chunk_bytes;
  if (input.chunk_bytes != 0) plan.chunk_bytes = std::min(plan.chunk_bytes, input.chunk_bytes);
  plan.datagram_bytes = std::min(shape.datagram_bytes, plan.chunk_bytes);
  plan.chunks_per_block = protocol::BlockLayout::chunks_of(input.send_bytes, plan.chunk_bytes);
  plan.datagrams_per_block = datagrams_of(plan, input.send_bytes);
  plan.chunks = plan.chunks_per_block * blocks;
  if (plan.chunks > protocol::BlockLayout::kMaxChunks) {
    return failure(Code::invalid_argument,
                   "the collective has {} chunks, but a collective may have at most {}: "
                   "use larger --chunk-bytes or smaller --bytes",
                   plan.chunks, protocol::BlockLayout::kMaxChunks);
  }
  const protocol::Sequencer sequencer(blocks, chains_of(input, plan.chunk_bytes));
  plan.steps = sequencer.steps();
  plan.user_bytes = input.send_bytes * blocks;
  // A rank stores one bit per chunk and, for each block and subgroup, the highest PSN that has
  // arrived.
  plan.state_bytes = divide_up(plan.chunks, 8) + std::uint64_t{blocks} * input.subgroups * 4;
  if (input.ranks == 1 || plan.chunks == 0) return plan;
  plan.barrier_messages = barrier_messages(input.ranks);
  plan.credits = credit_messages(input, blocks, plan.chunk_bytes);
  const std::uint64_t activations = blocks - sequencer.chains();
  plan.messages = input.ranks + activations + plan.credits;
  const std::uint64_t block_on_link =
      input.send_bytes + plan.datagrams_per_block * header_bytes(input.ipv6, input.multicast);
  plan.data.max_sent = block_on_link;
  plan.data.max_received = gather ? block_on_link * (input.ranks - 1) : block_on_link;
  plan.data.total = block_on_link * blocks * input.ranks;
  return plan;
}

Plan plan_ring(const PlanInput& input) {
  const bool gather = input.operation == Operation::allgather;
  const std::uint64_t others = input.ranks - 1;
  Plan plan;
  plan.algorithm = Algorithm::ring;
  // The option --chunk-bytes applies to multicast only; the ring uses the largest possible frames.
  const std::uint32_t frame =
      std::max<std::uint32_t>(agreed_shape(input).datagram_bytes, device::rc::kMinFrameBytes);
  plan.chunk_bytes = frame - static_cast<std::uint32_t>(device::rc::kRcWriteHeaderBytes);
  plan.user_bytes = input.send_bytes * (gather ? input.ranks : 1);
  plan.steps = input.ranks - 1;
  if (input.ranks == 1 || input.send_bytes == 0) return plan;
  // A ring passes on whole blocks; a chain passes on segments of the message.
  const std::uint64_t segments =
      gather ? 1 : collectives::pipeline_segments(input.ranks, input.send_bytes);
  const std::uint64_t segment_bytes = divide_up(input.send_bytes, segments);
  const std::uint64_t last_bytes = input.send_bytes - (segments - 1) * segment_bytes;
  plan.chunks_per_block = (segments - 1) * divide_up(segment_bytes, plan.chunk_bytes) +
                          divide_up(last_bytes, plan.chunk_bytes);
  plan.datagram_bytes = plan.chunk_bytes;
  plan.datagrams_per_block = plan.chunks_per_block;
  const std::uint64_t block_on_link =
      input.send_bytes +
      plan.chunks_per_block *
          (header_bytes(input.ipv6) + static_cast<std::uint32_t>(device::rc::kRcWriteHeaderBytes));
  // Every rank except the root of a block receives this block once. A Broadcast has only one block,
  // its message.
  const std::uint64_t blocks = gather ? input.ranks : 1;
  plan.chunks = plan.chunks_per_block * blocks * others;
  plan.messages = (gather ? input.ranks : others) + segments * blocks * others;
  plan.data.max_sent = gather ? block_on_link * others : block_on_link;
  plan.data.max_received = plan.data.max_sent;
  plan.data.total = 2 * block_on_link * blocks * others;
  return plan;
}

}  // namespace tutti::app
