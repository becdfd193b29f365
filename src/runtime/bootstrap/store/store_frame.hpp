// The messages between a bootstrap store and its ranks: bounded in size and decoded defensively.
//
// A frame is a header of 12 bytes (magic, version, kind, zero, payload length) and its payload; all
// numbers are little-endian. Every length is checked against the limit of its message kind before a
// byte is stored. Storage grows with the bytes that arrive, never with the length in the header.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/bootstrap/bootstrap.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

inline constexpr std::uint32_t kMaxBootstrapRanks = 1u << 20;
inline constexpr std::size_t kMaxContributionBytes = std::size_t{16} << 20;
/// All contributions of one exchange together may have at most this many bytes.
inline constexpr std::size_t kMaxExchangeBytes = std::size_t{1} << 30;

/// Identifies a job: the SHA-256 of a text that its ranks share. If the text is random and secret,
/// the token also proves that its sender belongs to the job.
using JobToken = std::array<std::byte, 32>;
Result<JobToken> make_job_token(std::string_view text);

enum class FrameKind : std::uint8_t {
  hello = 1,    ///< rank to store: its rank, size and token
  welcome = 2,  ///< store to rank: every rank has joined
  gather = 3,   ///< rank to store: its contribution
  result = 4,   ///< store to rank: all contributions
  failed = 5,   ///< store to rank: an error code and its text; the store then closes the connection
  busy = 6,     ///< store to rank: an earlier job still owns this store; the rank tries again
};

inline constexpr std::size_t kFrameHeaderBytes = 12;
/// The byte with which every frame begins.
inline constexpr std::byte kFrameFirstByte{'T'};

struct Frame {
  FrameKind kind = FrameKind::failed;
  Bytes payload;
};

struct Hello {
  static constexpr std::size_t kBytes = 16 + sizeof(JobToken);
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint32_t timeout_ms = 0;    ///< the rank's timeout, for error texts
  std::uint32_t remaining_ms = 0;  ///< time that is left until the rank's deadline
  JobToken token{};
};

struct Gather {
  static constexpr std::size_t kPrefixBytes = 8;
  std::uint32_t exchange = 0;  ///< index of the exchange in the job, from 0
  std::uint32_t timeout_ms = 0;
  Bytes bytes;
};

Bytes encode_frame(FrameKind kind, std::span<const std::byte> payload);
Bytes encode(const Hello& hello);
Bytes encode_gather(std::uint32_t exchange, std::uint32_t timeout_ms,
                    std::span<const std::byte> bytes);
Bytes encode_result(std::uint32_t exchange, std::span<const Bytes> contributions);
Bytes encode_failed(const Status& status);

Result<Hello> decode_hello(std::span<const std::byte> payload);
Result<Gather> decode_gather(std::span<const std::byte> payload);
/// Decodes the contributions to the exchange with number `exchange`; fails unless there are exactly
/// `size` contributions.
Result<std::vector<Bytes>> decode_result(std::span<const std::byte> payload, std::uint32_t exchange,
                                         std::uint32_t size);
/// Decodes the Status of a `failed` frame; the result is always an error, even if the frame is
/// damaged. Drops each rank at fault that is `size` or higher, where `size` is the number of ranks
/// of the job.
Status decode_failed(std::span<const std::byte> payload, std::uint32_t size);

/// Cuts a byte stream into frames. It stores at most one frame of the largest permitted size, plus
/// the bytes of the last append().
class FrameDecoder {
 public:
  explicit FrameDecoder(std::size_t max_payload_bytes) : max_payload_bytes_(max_payload_bytes) {}
  /// Changes the limit on the payload for all frames that take() has not returned yet.
  void set_max_payload_bytes(std::size_t bytes) { max_payload_bytes_ = bytes; }
  void append(std::span<const std::byte> bytes);
  /// Returns the next whole frame, or nothing if more bytes are needed. If the bytes follow another
  /// protocol or a frame exceeds the limit, the function fails, and the stream cannot be used
  /// again.
  Result<std::optional<Frame>> take();

 private:
  std::size_t max_payload_bytes_;
  Bytes pending_;
};

}  // namespace tutti::runtime
