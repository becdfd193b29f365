// Fuzzes the decoders of an aggregator: those of the control messages that arrive at its public
// port, and that of the call records that ranks write into its memory. Any input is refused, or
// decodes to values within the limits.
#include "runtime/aggregator/aggregator_frame.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "engine/aggregate/window_plan.hpp"

namespace {

using namespace tutti;           // NOLINT: no other file includes this source file
using namespace tutti::runtime;  // NOLINT

constexpr std::uint32_t kRanks = 5;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_header(std::span<const std::byte> bytes) {
  const auto header =
      decode_control_header(bytes.first(std::min(bytes.size(), kControlHeaderBytes)));
  if (!header) return;
  require(header->payload_bytes <= kMaxControlPayloadBytes);
  const Bytes again = encode_control(header->kind, Bytes(header->payload_bytes));
  require(std::equal(bytes.begin(), bytes.begin() + kControlHeaderBytes, again.begin()));
}

bool same(const JoinRequest& a, const JoinRequest& b) {
  return a.unique_id == b.unique_id && a.address == b.address && a.job == b.job &&
         a.ranks == b.ranks && a.options.ipv6 == b.options.ipv6 &&
         a.options.authenticate == b.options.authenticate &&
         a.options.multicast_hops == b.options.multicast_hops &&
         a.options.peer_timeout == b.options.peer_timeout &&
         a.options.create_timeout == b.options.create_timeout;
}

void check_messages(std::span<const std::byte> bytes) {
  if (const auto request = decode_join_request(bytes); request.ok()) {
    require(request->ranks >= 1 && request->ranks <= engine::kMaxInNetworkRanks);
    require(request->options.create_timeout.count() > 0 && request->unique_id.size() <= 128);
    const auto again = decode_join_request(encode(*request));
    require(again.ok() && same(*again, *request));
  }
  if (const auto reply = decode_join_reply(bytes); reply.ok()) {
    require(engine::check(reply->terms).ok());
    const auto again = decode_join_reply(encode(*reply));
    require(again.ok() && again->status.code() == reply->status.code() &&
            again->terms == reply->terms);
  }
}

void check_record(std::span<const std::byte> bytes) {
  const auto record = engine::decode_call_record(
      bytes.first(std::min(bytes.size(), engine::CallRecord::kBytes)), kRanks);
  if (!record) return;
  require(index(record->call.root) < kRanks && record->call.elements > 0);
  const auto again = engine::encode(*record);
  require(std::equal(again.begin(), again.end(), bytes.begin()));
  const engine::InNetworkPlan plan(record->call, kRanks, {});
  require(plan.segments() > 0);
  const std::uint32_t last = plan.segments() - 1;
  require(plan.offset_bytes(last) + plan.bytes(last) == plan.part_bytes());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check_header(bytes);
  check_messages(bytes);
  check_record(bytes);
  return 0;
}
