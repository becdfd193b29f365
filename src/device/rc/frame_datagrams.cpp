#include "device/rc/frame_datagrams.hpp"

#include <cstring>

namespace tutti::device::rc {

namespace {

// A short frame is copied as a whole behind the wire header. Of a long frame, the first 64 bytes
// are copied, and the rest is sent from the user's memory.
constexpr std::size_t kNearBytes = 64;
static_assert(kRcHeaderMax <= FrameDatagrams::kShortFrameBytes &&
              kRcWriteImmediateHeaderBytes <= kNearBytes &&
              kNearBytes % wire::kIntegrityPartBytes == 0);

constexpr std::size_t near_bytes(std::size_t frame_bytes) {
  return frame_bytes <= FrameDatagrams::kShortFrameBytes ? frame_bytes : kNearBytes;
}

}  // namespace

void FrameDatagrams::encode_next(wire::PacketKind kind, Rank peer, std::byte* head) {
  wire::encode({.kind = kind,
                .communicator = communicator_,
                .source = me_,
                .psn = index(peer),
                .counter = ++sent_[index(peer)]},
               head);
}

FrameDatagrams::Outgoing FrameDatagrams::encode(Rank peer, const OutgoingFrame& frame,
                                                std::byte* head) {
  encode_next(wire::PacketKind::reliable, peer, head);
  std::byte* body = head + wire::kHeaderBytes;
  std::memcpy(body, frame.header.data(), frame.header_bytes);
  const std::size_t near = near_bytes(frame.size());
  const std::size_t moved = near - frame.header_bytes;
  if (moved > 0) std::memcpy(body + frame.header_bytes, frame.payload.data(), moved);
  const auto rest = frame.payload.subspan(moved);
  keys_.seal(head, {body, near}, rest);
  return {.head_bytes = wire::kHeaderBytes + near, .rest = rest};
}

void FrameDatagrams::encode_probe(Rank peer, std::span<const std::byte> padding, std::byte* head) {
  encode_next(wire::PacketKind::path_probe, peer, head);
  keys_.seal(head, padding);
}

std::optional<FrameDatagrams::Received> FrameDatagrams::accept(const wire::Header& header,
                                                               std::span<const std::byte> datagram,
                                                               EndpointCounters& counters) {
  const bool probe = header.kind == wire::PacketKind::path_probe;
  if ((header.kind != wire::PacketKind::reliable && !probe) ||
      header.communicator != communicator_ || header.source == me_ || header.psn != index(me_)) {
    ++counters.rejected_foreign;
    return std::nullopt;
  }
  const auto frame = datagram.subspan(wire::kHeaderBytes);
  const auto verdict = arrivals_.judge(
      header.source, header.counter, header.tag,
      [&](const wire::Integrity& word) { return word.tag(datagram.data(), frame); });
  if (verdict == wire::ArrivalCheck::Verdict::damaged) ++counters.rejected_integrity;
  if (verdict == wire::ArrivalCheck::Verdict::replayed) ++counters.rejected_replayed;
  if (verdict != wire::ArrivalCheck::Verdict::fresh) return std::nullopt;
  return Received{header.source, probe, frame};
}

}  // namespace tutti::device::rc
