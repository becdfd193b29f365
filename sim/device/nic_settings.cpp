#include "sim/device/nic_settings.hpp"

#include "base/error.hpp"

namespace tutti::device::sim {

Status check(const NicSettings& settings) {
  if (settings.chunk_bytes < 32 || settings.chunk_bytes > (1u << 30)) {
    return failure(Code::invalid_argument,
                   "chunk_bytes of a simulated NIC is {}: use 32 bytes to 1 GiB",
                   settings.chunk_bytes);
  }
  if (settings.staging_chunks == 0 || settings.send_queue_chunks == 0 ||
      settings.max_send_batch == 0 || settings.burst_packets == 0 || settings.window_packets == 0 ||
      settings.acknowledge_every == 0) {
    return failure(Code::invalid_argument,
                   "a setting of the simulated NIC is 0: set it to 1 or more (staging_chunks {}, "
                   "send_queue_chunks {}, max_send_batch {}, burst_packets {}, window_packets {}, "
                   "acknowledge_every {})",
                   settings.staging_chunks, settings.send_queue_chunks, settings.max_send_batch,
                   settings.burst_packets, settings.window_packets, settings.acknowledge_every);
  }
  if (settings.retransmit_timeout.count() <= 0 ||
      settings.retransmit_timeout_max < settings.retransmit_timeout) {
    return failure(Code::invalid_argument,
                   "retransmit_timeout {} ns and retransmit_timeout_max {} ns are invalid: use 0 < "
                   "retransmit_timeout <= retransmit_timeout_max",
                   settings.retransmit_timeout.count(), settings.retransmit_timeout_max.count());
  }
  if (settings.big_endian_atomics && settings.connections != ConnectionKind::nic) {
    return failure(Code::invalid_argument,
                   "big-endian atomics need connections that the NIC runs: set connections to nic, "
                   "or unset big_endian_atomics");
  }
  if (settings.connections == ConnectionKind::nic) {
    if (!settings.slot_exchange) return {};
    return failure(Code::invalid_argument,
                   "a slot exchange needs connections that software runs: set connections to "
                   "software, or unset slot_exchange");
  }
  if (settings.send_queue_frames < 2 || settings.receive_queue_frames == 0 ||
      settings.receive_batch_frames == 0 || !settings.carry_bytes) {
    return failure(
        Code::invalid_argument,
        "connections that software runs need {}: change this setting, or set connections to nic",
        settings.send_queue_frames < 2       ? "send_queue_frames of 2 or more"
        : settings.receive_queue_frames == 0 ? "receive_queue_frames of 1 or more"
        : settings.receive_batch_frames == 0 ? "receive_batch_frames of 1 or more"
                                             : "carry_bytes set to true");
  }
  return {};
}

}  // namespace tutti::device::sim
