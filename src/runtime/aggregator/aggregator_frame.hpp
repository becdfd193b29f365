// The messages of a job and an aggregator before they share a communicator: one request and one
// answer over TCP, encrypted and authenticated by the aggregator's service key.
//
//   aggregator -> job    challenge   32 random bytes
//   job -> aggregator    request     32 random bytes, JoinRequest sealed
//   aggregator -> job    reply       JoinReply sealed; or `stranger`, empty: the keys differ
//   job -> aggregator    go          empty: all aggregators join the job
//
// A frame is a header of 12 bytes (magic, version, kind, zero, payload length) and its payload; all
// numbers are little endian. "Sealed" means encrypted by AES-256-GCM with a key that HKDF-SHA-256
// derives from the service key, the direction and the random bytes of both sides. Each such key
// serves for one message, so a recorded request is of no use against another challenge.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/aggregate/window_plan.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "tutti/options.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

inline constexpr std::size_t kControlHeaderBytes = 12;
inline constexpr std::size_t kMaxControlPayloadBytes = 4096;
inline constexpr std::size_t kControlNonceBytes = 32;
inline constexpr std::size_t kMinServiceKeyBytes = 16;
inline constexpr std::size_t kMaxServiceKeyBytes = 1024;

using ControlNonce = std::array<std::byte, kControlNonceBytes>;

enum class ControlKind : std::uint8_t { challenge = 1, request, reply, stranger, go };

struct ControlFrame {
  ControlKind kind = ControlKind::stranger;
  Bytes payload;
};

Bytes encode_control(ControlKind kind, std::span<const std::byte> payload);
/// The header of a frame. Decoding returns nothing if the bytes are not a valid header, or announce
/// a payload of more than kMaxControlPayloadBytes.
struct ControlHeader {
  ControlKind kind = ControlKind::stranger;
  std::size_t payload_bytes = 0;
};
std::optional<ControlHeader> decode_control_header(std::span<const std::byte> bytes);

/// A job's request that an aggregator join a communicator as its last rank.
struct JoinRequest {
  std::string unique_id;    ///< unique id of the communicator's bootstrap
  std::string address;      ///< address of the aggregator as the job knows it: "host:port"
  std::string job;          ///< name of the client for the aggregator's log: "host:process"
  std::uint32_t ranks = 0;  ///< number of ranks, the aggregator not counted
  std::uint16_t communicator = 0;
  /// The options of the job, of which ipv6, authenticate and both timeouts are sent.
  CommunicatorOptions options{};
};

/// The aggregator's answer: the window that it offers, or the reason of a refusal.
struct JoinReply {
  Status status;
  engine::WindowConfig terms;
};

Bytes encode(const JoinRequest& request);
Bytes encode(const JoinReply& reply);
/// Decode a request or a reply; fail for values out of range: ranks, timeouts, window, lengths of
/// texts.
Result<JoinRequest> decode_join_request(std::span<const std::byte> bytes);
Result<JoinReply> decode_join_reply(std::span<const std::byte> bytes);

/// The secret that an aggregator shares with its users.
using ServiceKey = Bytes;

/// Finds the service key: in `file`, else in the file that TUTTI_AGGREGATOR_KEY_FILE names, else in
/// TUTTI_AGGREGATOR_KEY itself; surrounding white space does not count. Refuses a key of fewer than
/// 16 bytes, and a file that other users may read.
Result<ServiceKey> find_service_key(const std::string& file = {});

Result<ControlNonce> fresh_nonce();

enum class ControlDirection : std::uint8_t { to_aggregator = 1, to_job };

/// Encrypts one message of a connection.
Result<Bytes> seal(const ServiceKey& key, ControlDirection direction, const ControlNonce& challenge,
                   const ControlNonce& nonce, std::span<const std::byte> plain);
/// Decrypts a message; nothing if it was sealed by another key or for another connection, or was
/// changed.
std::optional<Bytes> unseal(const ServiceKey& key, ControlDirection direction,
                            const ControlNonce& challenge, const ControlNonce& nonce,
                            std::span<const std::byte> sealed);

}  // namespace tutti::runtime
