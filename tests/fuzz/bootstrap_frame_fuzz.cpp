// Fuzzes the frames that arrive at the public port of the bootstrap's store. A stream of bytes is
// cut into frames or fails, and every payload decodes or is refused.
#include "runtime/bootstrap/store/store_frame.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

namespace {

using namespace tutti;           // NOLINT: no other file includes this source file
using namespace tutti::runtime;  // NOLINT

constexpr std::size_t kLimit = 4096;
constexpr std::uint32_t kSize = 3;

void require(bool holds) {
  if (!holds) std::abort();
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// The payload that follows a frame's header.
std::span<const std::byte> payload_of(const Bytes& frame) {
  return std::span(frame).subspan(kFrameHeaderBytes);
}

/// Decodes a payload as each kind of frame; a payload that decodes must encode to the same bytes.
void check_payload(std::span<const std::byte> payload) {
  if (const auto hello = decode_hello(payload); hello.ok()) {
    require(equal(payload_of(encode(*hello)), payload));
  }
  if (const auto gather = decode_gather(payload); gather.ok()) {
    const Bytes again = encode_gather(gather->exchange, gather->timeout_ms, gather->bytes);
    require(equal(payload_of(again), payload));
  }
  for (std::uint32_t exchange = 0; exchange < 2; ++exchange) {
    const auto result = decode_result(payload, exchange, kSize);
    if (!result.ok()) continue;
    require(result->size() == kSize);
    require(equal(payload_of(encode_result(exchange, *result)), payload));
  }
  const Status failed = decode_failed(payload, kSize);
  require(!failed.ok());
  for (const Rank rank : failed.ranks()) require(index(rank) < kSize);
}

/// Passes the stream to a decoder in pieces of `piece` bytes, and returns the decoded frames. The
/// frames must not depend on the size of the pieces.
std::vector<Frame> frames_of(std::span<const std::byte> stream, std::size_t piece) {
  FrameDecoder decoder(kLimit);
  std::vector<Frame> frames;
  while (true) {
    auto frame = decoder.take();
    if (!frame.ok()) return frames;
    if (frame->has_value()) {
      require((*frame)->payload.size() <= kLimit);
      frames.push_back(std::move(**frame));
      continue;
    }
    if (stream.empty()) return frames;
    const std::size_t taken = std::min(piece, stream.size());
    decoder.append(stream.first(taken));
    stream = stream.subspan(taken);
  }
}

void check_stream(std::span<const std::byte> stream, std::size_t piece) {
  const std::vector<Frame> whole = frames_of(stream, stream.size() + 1);
  const std::vector<Frame> pieces = frames_of(stream, piece);
  require(whole.size() == pieces.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    require(whole[i].kind == pieces[i].kind && whole[i].payload == pieces[i].payload);
    check_payload(whole[i].payload);
  }
}

/// Valid frames whose payloads come from the input. The input then damages some of their bytes.
Bytes dress(std::span<const std::byte> input) {
  Bytes stream = encode_gather(1, 1000, input);
  const Bytes hello = encode(Hello{.rank = 1, .size = kSize, .timeout_ms = 9, .remaining_ms = 8});
  stream.insert(stream.end(), hello.begin(), hello.end());
  const std::vector<Bytes> parts{Bytes(input.begin(), input.end()), {}, Bytes(3)};
  const Bytes result = encode_result(0, parts);
  stream.insert(stream.end(), result.begin(), result.end());
  for (std::size_t i = 0; i + 1 < input.size() && i < 8; i += 2) {
    stream[std::to_integer<std::size_t>(input[i]) * 7 % stream.size()] ^= input[i + 1];
  }
  return stream;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::size_t piece = size == 0 ? 1 : data[0] % 64 + 1;
  check_payload(bytes);
  check_stream(bytes, piece);
  check_stream(dress(bytes), piece);
  return 0;
}
