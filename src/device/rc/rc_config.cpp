#include "device/rc/rc_config.hpp"

#include "base/error.hpp"

namespace tutti::device::rc {

Status check(const RcConfig& config) {
  if (config.max_frame_bytes < kMinFrameBytes) {
    return failure(Code::invalid_argument,
                   "reliable frames of {} bytes are too short: use {} bytes or more",
                   config.max_frame_bytes, kMinFrameBytes);
  }
  if (config.rto_min.count() <= 0 || config.rto_max < config.rto_min) {
    return failure(Code::invalid_argument,
                   "rto_min {} ns and rto_max {} ns are invalid: use 0 < rto_min <= rto_max",
                   config.rto_min.count(), config.rto_max.count());
  }
  if (config.ack_delay.count() < 0 || config.ack_delay >= config.rto_min) {
    return failure(Code::invalid_argument,
                   "an ACK delay of {} ns is invalid: use 0 or more, and less than the shortest "
                   "retransmission timeout of {} ns",
                   config.ack_delay.count(), config.rto_min.count());
  }
  if (config.peer_timeout <= config.rto_min) {
    return failure(Code::invalid_argument,
                   "a peer timeout of {} ns leaves no time to retransmit: use more than {} ns",
                   config.peer_timeout.count(), config.rto_min.count());
  }
  const std::uint32_t most_requests = std::uint32_t{1} << 24;
  if (config.max_queued_requests == 0 || config.max_queued_requests > most_requests) {
    return failure(Code::invalid_argument,
                   "a work queue for {} work requests is invalid: use 1 to {}",
                   config.max_queued_requests, most_requests);
  }
  return {};
}

}  // namespace tutti::device::rc
