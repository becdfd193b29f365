// The messages between a job and an aggregator before they share a communicator: a request, a reply
// and the start of the job, over TCP in TLS under the aggregator's service key.
//
//   job -> aggregator    request     JoinRequest
//   aggregator -> job    reply       JoinReply
//   job -> aggregator    go          empty: all aggregators join the job
//
// A frame is a header of 12 bytes (magic, version, kind, zero, payload length) and its payload; all
// numbers are little endian.
#pragma once

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
inline constexpr std::size_t kMinServiceKeyBytes = 16;
inline constexpr std::size_t kMaxServiceKeyBytes = 1024;

enum class ControlKind : std::uint8_t { request = 1, reply, go };

struct ControlFrame {
  ControlKind kind = ControlKind::request;
  Bytes payload;
};

Bytes encode_control(ControlKind kind, std::span<const std::byte> payload);
/// The header of a frame. decode_control_header() returns nothing if the header is not valid, or if
/// its payload length is above kMaxControlPayloadBytes.
struct ControlHeader {
  ControlKind kind = ControlKind::request;
  std::size_t payload_bytes = 0;
};
std::optional<ControlHeader> decode_control_header(std::span<const std::byte> bytes);

/// A job's request that an aggregator join a communicator as its last rank.
struct JoinRequest {
  std::string unique_id;    ///< unique id of the communicator's bootstrap
  std::string address;      ///< address of the aggregator as the job knows it: "host:port"
  std::string job;          ///< name of the client for the aggregator's log: "host:process"
  std::uint32_t ranks = 0;  ///< number of ranks of the job; the aggregator is not counted
  /// The options of the job. Only ipv6, authenticate, multicast_hops, peer_timeout and
  /// create_timeout are sent.
  CommunicatorOptions options{};
};

/// The aggregator's answer: the window that it offers, or the reason of a refusal.
struct JoinReply {
  Status status;
  engine::WindowConfig terms;
};

Bytes encode(const JoinRequest& request);
Bytes encode(const JoinReply& reply);
/// These functions decode a request or a reply. They fail if a number of ranks, a timeout, a window
/// or the length of a text is out of range.
Result<JoinRequest> decode_join_request(std::span<const std::byte> bytes);
Result<JoinReply> decode_join_reply(std::span<const std::byte> bytes);

/// The secret that an aggregator shares with the jobs that may use it.
using ServiceKey = Bytes;

/// Finds the service key in the first of these places that is given: `file`, the file that
/// TUTTI_AGGREGATOR_KEY_FILE names, the text of TUTTI_AGGREGATOR_KEY. White space around the key is
/// ignored. Fails if the key has fewer than 16 or more than 1024 bytes, or if another user owns the
/// file or can open it.
Result<ServiceKey> find_service_key(const std::string& file = {});

}  // namespace tutti::runtime
