// Fuzzes the frames of reliable connections. A frame decodes or is refused, and no sequence of
// frames makes a channel read or write beyond registered memory.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "device/atomics.hpp"
#include "device/rc/rc_channel.hpp"

namespace {

using namespace tutti;              // NOLINT: no other file includes this source file
using namespace tutti::device;      // NOLINT
using namespace tutti::device::rc;  // NOLINT

constexpr std::uint32_t kOwn = 0x0a0a0a0a;
constexpr std::uint32_t kPeer = 0x0b0b0b0b;

struct Sink : CompletionSink {
  std::uint8_t digest = 0;  // XOR of all payload bytes, so that each byte is read
  void push(const Completion& completion) override {
    for (const std::byte byte : completion.payload) digest ^= static_cast<std::uint8_t>(byte);
  }
};

void require(bool holds) {
  if (!holds) std::abort();
}

void check_round_trip(std::span<const std::byte> bytes) {
  const auto frame = decode_rc(bytes);
  if (!frame) return;
  require(!to_string(*frame).empty());
  std::array<std::byte, kRcHeaderMax> header;
  const std::size_t size = encode(*frame, header.data());
  require(size + frame->payload.size() == bytes.size());
  require(std::memcmp(header.data(), bytes.data(), size) == 0);
}

/// Takes the frames that the channel wants to send, and reads all their bytes.
void drain(RcChannel& channel, Instant now, Sink& sink) {
  OutgoingFrame frame;
  while (channel.next_frame(now, frame)) {
    const std::vector<std::byte> bytes = frame.bytes();
    require(decode_rc(bytes).has_value());
    sink.digest ^= static_cast<std::uint8_t>(bytes.back());
  }
}

/// A channel with posted work of all kinds, so that answers and refusals in the input find work to
/// which they belong. The memory is exactly as long as registered, so that the sanitizer reports an
/// access beyond its end.
struct Target {
  std::vector<std::byte> local = std::vector<std::byte>(3000);
  std::vector<std::byte> region = std::vector<std::byte>(5000);
  MemoryTable memory;
  RcCounters counters;
  std::unique_ptr<RcChannel> channel;
  Instant now{1'000'000'000};

  Target() {
    RcConfig config;
    config.own_incarnation = kOwn;
    config.peer_incarnation = kPeer;
    config.unexpected_buffers = 8;
    channel = std::make_unique<RcChannel>(rank_of(1), config, memory, counters);
    require(memory.add(region).ok());
    for (int i = 0; i < 12; ++i) {
      WorkRequest request;
      request.opcode = static_cast<Opcode>(i % 6);
      request.local = local;
      if (is_atomic(request.opcode)) request.local = request.local.first(kAtomicBytes);
      request.remote_key = {1};
      require(channel->post(now, request).ok());
    }
  }
};

/// Cuts the input into frames, each preceded by its length in two bytes, writes valid incarnations
/// into the frames, and passes the frames to the channel.
void feed(std::span<const std::byte> input) {
  Target target;
  Sink sink;
  while (input.size() > 2) {
    std::uint16_t size = 0;
    std::memcpy(&size, input.data(), 2);
    input = input.subspan(2);
    const std::size_t taken = std::min<std::size_t>(size % 1500, input.size());
    std::vector<std::byte> frame(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(taken));
    input = input.subspan(taken);
    if (frame.size() >= kRcCommonBytes) {
      std::memcpy(frame.data() + 4, &kPeer, 4);
      std::memcpy(frame.data() + 8, &kOwn, 4);
    }
    target.channel->on_frame(target.now, frame, sink);
    drain(*target.channel, target.now, sink);
    target.now = target.now + Nanoseconds(std::int64_t{1} << (size % 28));
    target.channel->on_timer(target.now, sink);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check_round_trip(bytes);
  feed(bytes);
  return 0;
}
