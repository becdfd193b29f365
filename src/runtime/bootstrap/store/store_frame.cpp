#include "runtime/bootstrap/store/store_frame.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "crypto/hash.hpp"
#include "runtime/bootstrap/byte_fields.hpp"

namespace tutti::runtime {
namespace {

constexpr std::uint32_t kMagic = 0x49545554;  // "TUTI" on the wire
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kMaxFailureTextBytes = 4096;
constexpr std::size_t kMaxFailureRanks = 255;

void put_header(Bytes& to, FrameKind kind, std::size_t payload_bytes) {
  put_u32(to, kMagic);
  to.push_back(std::byte{kVersion});
  to.push_back(static_cast<std::byte>(kind));
  to.push_back(std::byte{0});
  to.push_back(std::byte{0});
  put_u32(to, static_cast<std::uint32_t>(payload_bytes));
}

bool known(std::uint8_t kind) {
  return kind >= static_cast<std::uint8_t>(FrameKind::hello) &&
         kind <= static_cast<std::uint8_t>(FrameKind::busy);
}

}  // namespace

Result<JobToken> make_job_token(std::string_view text) {
  return crypto::sha256(std::as_bytes(std::span(text)));
}

Bytes encode_frame(FrameKind kind, std::span<const std::byte> payload) {
  Bytes frame;
  frame.reserve(kFrameHeaderBytes + payload.size());
  put_header(frame, kind, payload.size());
  put(frame, payload);
  return frame;
}

Bytes encode(const Hello& hello) {
  Bytes frame;
  put_header(frame, FrameKind::hello, Hello::kBytes);
  put_u32(frame, hello.rank);
  put_u32(frame, hello.size);
  put_u32(frame, hello.timeout_ms);
  put_u32(frame, hello.remaining_ms);
  put(frame, hello.token);
  return frame;
}

Bytes encode_gather(std::uint32_t exchange, std::uint32_t timeout_ms,
                    std::span<const std::byte> bytes) {
  Bytes frame;
  frame.reserve(kFrameHeaderBytes + Gather::kPrefixBytes + bytes.size());
  put_header(frame, FrameKind::gather, Gather::kPrefixBytes + bytes.size());
  put_u32(frame, exchange);
  put_u32(frame, timeout_ms);
  put(frame, bytes);
  return frame;
}

Bytes encode_result(std::uint32_t exchange, std::span<const Bytes> contributions) {
  std::size_t payload_bytes = 4 + 4 * contributions.size();
  for (const Bytes& bytes : contributions) payload_bytes += bytes.size();
  Bytes frame;
  frame.reserve(kFrameHeaderBytes + payload_bytes);
  put_header(frame, FrameKind::result, payload_bytes);
  put_u32(frame, exchange);
  for (const Bytes& bytes : contributions) put_u32(frame, static_cast<std::uint32_t>(bytes.size()));
  for (const Bytes& bytes : contributions) put(frame, bytes);
  return frame;
}

Bytes encode_failed(const Status& status) {
  const std::size_t length = std::min(status.message().size(), kMaxFailureTextBytes);
  const std::size_t ranks = std::min(status.ranks().size(), kMaxFailureRanks);
  Bytes frame;
  put_header(frame, FrameKind::failed, 2 + 4 * ranks + length);
  frame.push_back(static_cast<std::byte>(status.code()));
  frame.push_back(static_cast<std::byte>(ranks));
  for (const Rank rank : status.ranks().first(ranks)) put_u32(frame, index(rank));
  put(frame, std::as_bytes(std::span(status.message()).first(length)));
  return frame;
}

Result<Hello> decode_hello(std::span<const std::byte> payload) {
  if (payload.size() != Hello::kBytes) {
    return failure(Code::invalid_argument,
                   "a rank's first message to the bootstrap store has {} bytes instead of {}: use "
                   "the same build of Tutti on all ranks",
                   payload.size(), Hello::kBytes);
  }
  Hello hello;
  hello.rank = get_u32(payload, 0);
  hello.size = get_u32(payload, 4);
  hello.timeout_ms = get_u32(payload, 8);
  hello.remaining_ms = get_u32(payload, 12);
  std::copy_n(payload.begin() + 16, hello.token.size(), hello.token.begin());
  return hello;
}

Result<Gather> decode_gather(std::span<const std::byte> payload) {
  if (payload.size() < Gather::kPrefixBytes) {
    return failure(Code::invalid_argument,
                   "a bootstrap message of {} bytes is shorter than its header: use the same build "
                   "of Tutti on all ranks",
                   payload.size());
  }
  const auto bytes = payload.subspan(Gather::kPrefixBytes);
  return Gather{get_u32(payload, 0), get_u32(payload, 4), Bytes(bytes.begin(), bytes.end())};
}

Result<std::vector<Bytes>> decode_result(std::span<const std::byte> payload, std::uint32_t exchange,
                                         std::uint32_t size) {
  const std::size_t prefix_bytes = 4 + std::size_t{4} * size;
  if (payload.size() < prefix_bytes || get_u32(payload, 0) != exchange) {
    return failure(Code::internal,
                   "the bootstrap store's message is not the result of exchange {}: use the same "
                   "build of Tutti on all ranks",
                   exchange);
  }
  std::vector<Bytes> contributions(size);
  std::span<const std::byte> rest = payload.subspan(prefix_bytes);
  for (std::size_t rank = 0; rank < size; ++rank) {
    const std::size_t length = get_u32(payload, 4 + 4 * rank);
    if (length > rest.size()) {
      return failure(Code::internal,
                     "the bootstrap store's message ends before the last byte of rank {}'s "
                     "contribution: use the same build of Tutti on all ranks",
                     rank);
    }
    contributions[rank].assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(length));
    rest = rest.subspan(length);
  }
  if (!rest.empty()) {
    return failure(Code::internal,
                   "the bootstrap store's message has {} bytes too many: use the same build of "
                   "Tutti on all ranks",
                   rest.size());
  }
  return contributions;
}

Status decode_failed(std::span<const std::byte> payload, std::uint32_t size) {
  const std::size_t ranks = payload.size() < 2 ? 0 : std::to_integer<std::size_t>(payload[1]);
  if (payload.size() < 2 + 4 * ranks)
    return failure(Code::internal,
                   "the bootstrap store reported a failure without a reason: use the same build of "
                   "Tutti on all ranks");
  auto code = static_cast<Code>(std::to_integer<int>(payload[0]));
  if (code <= Code::ok || code > Code::internal) code = Code::internal;
  std::vector<Rank> at_fault;
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::uint32_t rank = get_u32(payload, 2 + 4 * i);
    if (rank < size) at_fault.push_back(rank_of(rank));
  }
  const auto rest = payload.subspan(2 + 4 * ranks);
  std::string text(reinterpret_cast<const char*>(rest.data()), rest.size());
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  return Status(code, std::move(text), std::move(at_fault));
}

void FrameDecoder::append(std::span<const std::byte> bytes) { put(pending_, bytes); }

Result<std::optional<Frame>> FrameDecoder::take() {
  if (pending_.size() < kFrameHeaderBytes) return std::optional<Frame>();
  const auto kind = std::to_integer<std::uint8_t>(pending_[5]);
  const bool ours = get_u32(pending_, 0) == kMagic && known(kind) && pending_[6] == std::byte{0} &&
                    pending_[7] == std::byte{0};
  if (!ours)
    return failure(
        Code::invalid_argument,
        "the peer does not speak the bootstrap protocol: check the address and port of rank 0");
  if (pending_[4] != std::byte{kVersion}) {
    return failure(Code::unsupported,
                   "the peer speaks version {} of the bootstrap protocol, this process version {}: "
                   "use the same build of Tutti on all ranks",
                   std::to_integer<int>(pending_[4]), kVersion);
  }
  const std::size_t length = get_u32(pending_, 8);
  if (length > max_payload_bytes_) {
    return failure(Code::invalid_argument,
                   "the header of the peer's bootstrap message announces {} bytes, above the limit "
                   "of {}: use the same build of Tutti on all ranks",
                   length, max_payload_bytes_);
  }
  if (pending_.size() < kFrameHeaderBytes + length) return std::optional<Frame>();
  const auto begin = pending_.begin() + kFrameHeaderBytes;
  const auto end = begin + static_cast<std::ptrdiff_t>(length);
  Frame frame{static_cast<FrameKind>(kind), Bytes(begin, end)};
  pending_.erase(pending_.begin(), end);
  return std::optional<Frame>(std::move(frame));
}

}  // namespace tutti::runtime
