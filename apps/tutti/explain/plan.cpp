#include "explain/plan.hpp"

#include <sys/socket.h>

#include <bit>

#include "base/error.hpp"
#include "device/ip/ip_device.hpp"
#include "device/rc/rc_frame.hpp"
#include "engine/settings.hpp"
#include "protocol/sequencer.hpp"
#include "wire/header.hpp"

namespace tutti::app {
namespace {

constexpr std::uint32_t kUdpBytes = 8;
constexpr std::uint32_t kIpv4Bytes = 20;
constexpr std::uint32_t kIpv6Bytes = 40;
constexpr std::uint32_t kEthernetBytes = 14;
constexpr std::uint64_t kRingSegmentBytes = 64 * 1024;  // as the ring of the engine

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

std::uint32_t chunk_bytes(const PlanInput& input) {
  const std::uint32_t largest =
      device::ip::chunk_bytes_for_mtu(input.mtu_bytes, input.ipv6 ? AF_INET6 : AF_INET);
  return input.chunk_bytes == 0 ? largest : std::min(input.chunk_bytes, largest);
}

/// Recursive doubling among the largest power of two of ranks; the others fold into it.
std::uint64_t barrier_messages(std::uint32_t ranks) {
  const std::uint64_t power = std::bit_floor(ranks);
  return power * static_cast<std::uint64_t>(std::countr_zero(power)) + 2 * (ranks - power);
}

/// Reports up a tree for every pulse that a later one waits for.
std::uint64_t credit_messages(const PlanInput& input, std::uint64_t chunks,
                              std::uint32_t bytes_per_chunk) {
  const engine::Settings settings;
  const std::uint64_t window = input.window_bytes / bytes_per_chunk;
  if (window == 0 || chunks <= window) return 0;
  const std::uint64_t pulse = std::max<std::uint64_t>(window / settings.pulses_in_flight, 1);
  const std::uint64_t pulses = divide_up(chunks, pulse);
  if (pulses <= settings.pulses_in_flight) return 0;
  return (pulses - settings.pulses_in_flight) * (input.ranks - 1);
}

}  // namespace

std::uint32_t header_bytes(bool ipv6) {
  return kEthernetBytes + (ipv6 ? kIpv6Bytes : kIpv4Bytes) + kUdpBytes +
         static_cast<std::uint32_t>(wire::kHeaderBytes);
}

Result<Plan> plan_multicast(const PlanInput& input) {
  const bool gather = input.operation == Operation::allgather;
  const std::uint32_t blocks = gather ? input.ranks : 1;
  Plan plan;
  plan.algorithm = Algorithm::multicast;
  plan.chunk_bytes = chunk_bytes(input);
  plan.chunks_per_block = divide_up(input.send_bytes, plan.chunk_bytes);
  plan.chunks = plan.chunks_per_block * blocks;
  if (plan.chunks >= wire::kMaxChunks) {
    return failure(Code::invalid_argument, "{} chunks are more than the {} that PSNs can number",
                   plan.chunks, wire::kMaxChunks);
  }
  const protocol::Sequencer sequencer(blocks, std::max(1u, input.chains));
  plan.steps = sequencer.steps();
  plan.user_bytes = input.send_bytes * blocks;
  // A bit a chunk, and per block the highest PSN seen by each subgroup.
  plan.state_bytes = divide_up(plan.chunks, 8) + std::uint64_t{blocks} * input.subgroups * 4;
  if (input.ranks == 1 || plan.chunks == 0) return plan;
  plan.barrier_messages = barrier_messages(input.ranks);
  plan.credits = credit_messages(input, plan.chunks, plan.chunk_bytes);
  const std::uint64_t activations = blocks - sequencer.chains();
  plan.messages = input.ranks + activations + plan.credits;
  const std::uint64_t block_on_link =
      input.send_bytes + plan.chunks_per_block * header_bytes(input.ipv6);
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
  plan.chunk_bytes =
      chunk_bytes(input) - static_cast<std::uint32_t>(device::rc::kRcWriteHeaderBytes);
  plan.user_bytes = input.send_bytes * (gather ? input.ranks : 1);
  plan.steps = input.ranks - 1;
  if (input.ranks == 1 || input.send_bytes == 0) return plan;
  const std::uint64_t segments = divide_up(input.send_bytes, kRingSegmentBytes);
  const std::uint64_t last = input.send_bytes - (segments - 1) * kRingSegmentBytes;
  plan.chunks_per_block = (segments - 1) * divide_up(kRingSegmentBytes, plan.chunk_bytes) +
                          divide_up(last, plan.chunk_bytes);
  const std::uint64_t block_on_link =
      input.send_bytes +
      plan.chunks_per_block *
          (header_bytes(input.ipv6) + static_cast<std::uint32_t>(device::rc::kRcWriteHeaderBytes));
  // An allgather's block passes P - 1 links, and so does a broadcast's message.
  const std::uint64_t blocks = gather ? input.ranks : 1;
  plan.chunks = plan.chunks_per_block * blocks * others;
  plan.messages = (gather ? input.ranks : others) + segments * blocks * others;
  plan.data.max_sent = gather ? block_on_link * others : block_on_link;
  plan.data.max_received = plan.data.max_sent;
  plan.data.total = 2 * block_on_link * blocks * others;
  return plan;
}

}  // namespace tutti::app
