// The settings of a reliable connection, and the counts of all connections of an endpoint.
#pragma once

#include <cstdint>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device::rc {

/// Largest number of READs open at the peer; more wait in the queue.
inline constexpr std::uint32_t kMaxOpenReads = 256;
/// The smallest RcConfig::max_frame_bytes.
inline constexpr std::uint32_t kMinFrameBytes = 512;

/// Both sides of a connection use the same frame, message and sequence settings.
struct RcConfig {
  std::uint32_t max_frame_bytes = 1448;  ///< datagram behind the wire header: RC header and data
  std::uint32_t overhead_bytes = 0;      ///< headers of a packet before the frame, for reports
  std::uint32_t max_message_bytes = 16 * 1024;
  std::uint32_t window_bytes = 256 * 1024;  ///< largest amount in flight; gives 4 to 1024 frames
  std::uint32_t max_queued_requests = 4096;
  std::uint32_t unexpected_buffers = 256;  ///< messages and READs kept if they arrive out of order
  Nanoseconds rto_min{2'000'000};
  /// Limit of the first timeout. A peer whose application computes answers late, which makes round
  /// trips look long; a needless retransmission costs less than waiting for a lost last message.
  Nanoseconds rto_first_max{8'000'000};
  Nanoseconds rto_max{200'000'000};
  /// Long enough for two packets of 64 KiB at 1 Gbit/s. A sender that waits asks for an ACK, which
  /// is sent at once.
  Nanoseconds ack_delay{1'200'000};
  Nanoseconds peer_timeout{10'000'000'000};
  std::uint32_t own_incarnation = 0;
  std::uint32_t peer_incarnation = 0;
  std::uint32_t initial_sequence = 0;
};

/// Checks the settings; a channel requires settings that passed.
Status check(const RcConfig& config);

/// Counts of all channels of an endpoint together, cumulative.
struct RcCounters {
  std::uint64_t frames_sent = 0;  ///< datagrams, ACKs and retransmissions included
  std::uint64_t frames_resent = 0;
  std::uint64_t tail_probes = 0;  ///< last frames sent twice
  std::uint64_t acks_sent = 0;    ///< frames with nothing but an ACK
  std::uint64_t bytes_sent = 0;   ///< data bytes, retransmissions included
  std::uint64_t read_bytes_served = 0;
  std::uint64_t timeouts = 0;  ///< retransmissions after a timeout
  std::uint64_t pings_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t frames_duplicate = 0;
  std::uint64_t frames_dropped_unexpected = 0;  ///< beyond the window, or no buffer was free
  std::uint64_t rejected_malformed = 0;
  std::uint64_t rejected_incarnation = 0;
  std::uint64_t refused_operations = 0;  ///< operations of peers with a bad key or range
};

}  // namespace tutti::device::rc
