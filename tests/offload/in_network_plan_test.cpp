// Tests how an in-network reduction is cut into segments, and the record by which a rank tells the
// aggregator about the reduction.
#include "engine/aggregate/window_plan.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <map>
#include <vector>

#include "device/ip/chunk_shape.hpp"
#include "device/ip/datagram_sender.hpp"
#include "device/ip/endpoint.hpp"
#include "device/rc/rc_frame.hpp"
#include "wire/header.hpp"

namespace tutti::engine {
namespace {

TEST(InNetworkPlan, SegmentsOfABlock_haveNearlyEqualLengths) {
  for (const std::uint64_t elements : {250'000ull, 262'144ull, 1'000'003ull}) {
    const WindowConfig terms;
    const InNetworkPlan plan({.elements = elements}, 8, terms);
    ASSERT_GT(plan.segments(), 1u);
    EXPECT_EQ(plan.segments(), (elements * 4 + terms.segment_bytes - 1) / terms.segment_bytes);
    const std::size_t last = plan.bytes(plan.segments() - 1);
    EXPECT_LE(plan.bytes(0) - last, std::size_t{64} * plan.segments());
  }
}

// The length limit of a send with segmentation offload includes the header of each datagram. The
// test uses the longest header.
TEST(InNetworkPlan, DatagramsOfASegment_fitIntoOneSendWithSegmentationOffload) {
  const std::size_t segment = WindowConfig{}.segment_bytes;
  for (std::uint32_t mtu = 1400; mtu <= 9216; mtu += 4) {
    const std::size_t chunk = device::ip::chunk_bytes_for_mtu(mtu, AF_INET);
    const std::size_t payload = chunk - device::rc::kRcWriteImmediateHeaderBytes;
    const std::size_t frames = (segment + payload - 1) / payload;
    const std::size_t headers = wire::kHeaderBytes + device::rc::kRcWriteImmediateHeaderBytes;
    EXPECT_LE(segment + frames * headers, 65507u) << "MTU " << mtu;
    EXPECT_LE(frames, device::ip::DatagramSender::kMaxBatch) << "MTU " << mtu;
  }
}

TEST(InNetworkPlan, SegmentsCoverEveryBlockExactlyOnce) {
  for (const auto kind :
       {InNetworkKind::allreduce, InNetworkKind::reduce_scatter, InNetworkKind::reduce}) {
    for (const std::uint64_t elements : {1ull, 5ull, 1024ull, 16'411ull, 1'000'003ull}) {
      for (const std::uint32_t ranks : {1u, 3u, 8u}) {
        const InNetworkCall call{.kind = kind, .elements = elements};
        const InNetworkPlan plan(call, ranks, {});
        std::map<std::uint32_t, std::uint64_t> covered;
        for (std::uint32_t s = 0; s < plan.segments(); ++s) {
          EXPECT_EQ(plan.offset_bytes(s), covered[plan.block(s)]);
          EXPECT_EQ(plan.bytes(s) % 4, 0u);
          EXPECT_GT(plan.bytes(s), 0u);
          covered[plan.block(s)] += plan.bytes(s);
        }
        EXPECT_EQ(covered.size(), kind == InNetworkKind::reduce_scatter ? ranks : 1);
        for (const auto& [block, bytes] : covered) EXPECT_EQ(bytes, elements * 4);
        std::uint64_t grouped = 0;
        for (std::uint32_t g = 0; kind == InNetworkKind::allreduce && g < plan.groups(); ++g) {
          EXPECT_EQ(plan.group_offset_bytes(g), grouped);
          grouped += plan.group_bytes(g);
        }
        if (kind == InNetworkKind::allreduce) {
          EXPECT_EQ(grouped, elements * 4);
        }
      }
    }
  }
}

TEST(InNetworkPlan, CallRecord_decodesAsEncoded_andInvalidRecordsAreRefused) {
  CallRecord record;
  record.call = {.kind = InNetworkKind::reduce,
                 .type = DataType::bfloat16,
                 .operation = ReduceOperation::average,
                 .root = rank_of(2),
                 .elements = 12345};
  record.result_key = 0x1234'5678'9abcull;
  record.factor[1] = std::byte{7};
  const auto bytes = encode(record);
  const auto back = decode_call_record(bytes, 4);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->call, record.call);
  EXPECT_EQ(back->result_key, record.result_key);
  EXPECT_EQ(back->factor, record.factor);
  EXPECT_FALSE(decode_call_record(bytes, 2).has_value()) << "a root that is not a rank";
  EXPECT_FALSE(decode_call_record(std::span(bytes).first(63), 4).has_value());
  for (const std::size_t at : {0u, 1u, 2u, 3u, 40u, 63u}) {
    auto damaged = bytes;
    damaged[at] = std::byte{0xff};
    EXPECT_FALSE(decode_call_record(damaged, 4).has_value()) << at;
  }
  record.call.elements = 0;
  EXPECT_FALSE(decode_call_record(encode(record), 4).has_value());
}

TEST(WindowConfig, InvalidValueOfEachField_isRefused) {
  EXPECT_TRUE(check(WindowConfig{}).ok());
  EXPECT_TRUE(check(WindowConfig{16384, 8, 4, 65536}).ok());
  EXPECT_FALSE(check(WindowConfig{.segment_bytes = 100}).ok());
  const Status odd = check(WindowConfig{.segment_bytes = 4100});
  EXPECT_NE(odd.message().find("multiple of 64"), std::string::npos) << odd.to_string();
  EXPECT_FALSE(check(WindowConfig{.slots = 0}).ok());
  EXPECT_TRUE(check(WindowConfig{4096, 2, 1, 4096}).ok());
  EXPECT_FALSE(check(WindowConfig{4096, 1, 1, 4096}).ok());
  EXPECT_FALSE(check(WindowConfig{.slots = 4, .pulses = 5}).ok());
  EXPECT_FALSE(check(WindowConfig{.group_bytes = 1}).ok());
  EXPECT_FALSE(check(WindowConfig{.slots = 4, .group_bytes = 1u << 20}).ok());
}

}  // namespace
}  // namespace tutti::engine
