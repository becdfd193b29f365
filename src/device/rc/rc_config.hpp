// The settings of a reliable connection, and the counts of all connections of an endpoint.
#pragma once

#include <cstdint>

#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::device::rc {

/// At most this many READs and atomics of a connection may be unanswered; further ones wait in the
/// work queue.
inline constexpr std::uint32_t kMaxOpenReads = 256;
/// The smallest RcConfig::max_frame_bytes.
inline constexpr std::uint32_t kMinFrameBytes = 512;

/// Settings of a connection. Both sides must use the same frame and message settings.
struct RcConfig {
  /// Size of the largest frame in bytes: RC header and data, without the wire header.
  std::uint32_t max_frame_bytes = 1448;
  /// Bytes of the headers before the frame in a packet; used only in reports of lost long packets.
  std::uint32_t overhead_bytes = 0;
  /// Size of the longest SEND: 16 KiB of data and the header of the engine.
  std::uint32_t max_message_bytes = 16 * 1024 + 64;
  /// At most this many bytes may be in flight; the resulting window is 4 to 1024 frames.
  std::uint32_t window_bytes = 256 * 1024;
  std::uint32_t max_queued_requests = 4096;
  /// Number of buffers for messages, READs and atomics that arrive out of order.
  std::uint32_t unexpected_buffers = 256;
  Nanoseconds rto_min{2'000'000};
  /// Upper limit of the first retransmission timeout: round trips that are measured while the
  /// peer's application computes would make it too long. A needless retransmission costs less than
  /// a long wait for a lost last message.
  Nanoseconds rto_first_max{8'000'000};
  /// Upper limit of all retransmission timeouts. A peer whose link comes back is tried again within
  /// this time.
  Nanoseconds rto_max{50'000'000};
  /// Delay of an ACK that was not requested: longer than the time in which a link of 1 Gbit/s
  /// carries two packets of 64 KiB. A sender that waits for an ACK requests it. A requested ACK is
  /// sent at once, but the ACK of a message may wait for the reply (`reply_wait`).
  Nanoseconds ack_delay{1'200'000};
  /// Time for which the ACK of a message waits for the reply, if the last messages had replies
  /// within this time; 0: the ACK is sent at once.
  Nanoseconds reply_wait{100'000};
  Nanoseconds peer_timeout{10'000'000'000};
  std::uint32_t own_incarnation = 0;
  std::uint32_t peer_incarnation = 0;
};

/// The position at which a new connection begins or a closed one continues. Both sides of a new
/// connection begin at the same sequence number.
struct RcPosition {
  std::uint32_t next_sent = 0;      ///< sequence number of this side's next frame
  std::uint32_t next_expected = 0;  ///< sequence number of the peer's next frame
  std::uint32_t next_work = 0;      ///< number of this side's next work request
};

/// Limits of an endpoint's connections ([OFED-AT], dynamically connected transport).
struct ConnectionLimits {
  /// At most this many connections may be open at a time; 0: no limit, and connections stay open.
  /// With a limit, at most half of the connections carry work of this rank at a time, so that peers
  /// can connect to this rank, too.
  std::uint32_t most = 0;
  Nanoseconds idle{1'000'000'000};  ///< time without traffic after which a connection is closed
};

/// Checks the settings; a channel may be created only with settings that pass.
Status check(const RcConfig& config);

/// Counts of all channels of an endpoint together, cumulative.
struct RcCounters {
  std::uint64_t frames_sent = 0;  ///< frames sent, ACKs and retransmissions included
  std::uint64_t frames_resent = 0;
  std::uint64_t tail_probes = 0;  ///< tail probes: last frames sent a second time
  std::uint64_t acks_sent = 0;    ///< frames sent that carry only an ACK
  std::uint64_t bytes_sent = 0;   ///< data bytes sent, retransmissions included
  std::uint64_t read_bytes_served = 0;
  std::uint64_t atomics_served = 0;
  std::uint64_t timeouts = 0;  ///< retransmission timeouts that have expired
  std::uint64_t pings_sent = 0;
  /// Number of times that a channel stopped with unsent frames because of the limit that the gate
  /// set.
  std::uint64_t rounds_held_back = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t frames_duplicate = 0;
  /// Frames dropped because they lie beyond the receive window, or because no buffer is free for a
  /// frame that arrived out of order.
  std::uint64_t frames_dropped_unexpected = 0;
  std::uint64_t rejected_malformed = 0;
  std::uint64_t rejected_incarnation = 0;
  std::uint64_t refused_operations = 0;  ///< operations of peers refused for a bad key or range
  std::uint64_t connections_made = 0;
  std::uint64_t connections_closed = 0;      ///< connections closed because of ConnectionLimits
  std::uint64_t connections_high_water = 0;  ///< largest number of connections held at once so far
  /// Received frames dropped because there was no connection to their sender, and no other
  /// connection could be closed to make room for one.
  std::uint64_t frames_without_connection = 0;
};

}  // namespace tutti::device::rc
