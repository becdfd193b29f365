// Tuning parameters of an engine. Every value has a unit in its name or type.
#pragma once

#include <algorithm>
#include <cstdint>

#include "protocol/cutoff.hpp"
#include "protocol/fetch_ring.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

struct Settings {
  /// Number of chains of the sequencer ([Khalilov24] 4.1); 0: chosen by measurement.
  std::uint32_t chains = 0;
  std::uint32_t chunk_bytes = 0;  ///< chunk size in bytes; 0: the largest that the device sends
  /// Bytes of the credit window; 0: the smallest receive window of all ranks.
  std::uint64_t window_bytes = 0;
  /// At most this many credit batches are in flight ([Xu25] 1.3).
  std::uint32_t pulses_in_flight = 4;
  bool always_barrier = false;  ///< true: the ready barrier runs before every collective
  /// Reordering allowance: a chunk that has been missing for a shorter time may merely be
  /// reordered; a chunk that has been missing for a longer time counts as lost.
  Nanoseconds reorder_delay{1'000'000};
  protocol::Cutoff::Settings cutoff;
  protocol::FetchRing::Settings fetch;
  /// Link rate that is assumed until one is measured; the default is 1 Gbit/s.
  std::uint64_t assumed_bytes_per_second = 125'000'000;
  /// After this silence a rank asks its left neighbour for a block of which no chunk has come,
  /// which only a network that drops multicast makes necessary. After this wait for a
  /// clear-to-send, a rank sends a ready-to-send.
  Nanoseconds enquiry_patience{1'000'000'000};
  std::uint32_t first_epoch = 1;  ///< epoch of the first collective; epochs wrap at 2^32
  /// A Broadcast of at most this many bytes runs without a handshake, because its root retains a
  /// copy (RetainedBlocks).
  std::uint64_t retain_bytes = 0;
  Nanoseconds path_test_interval{0};  ///< time without progress before a path test; 0: no test
  /// Longest time for which a closing rank serves peers that do not answer.
  Nanoseconds close_linger{2'000'000'000};
  Nanoseconds ack_delay{1'000'000};  ///< delay of a delivery ACK after the arrival of a block
  /// Lead time of activations: a sender activates its successor this long before the sender's own
  /// last byte leaves the host.
  Nanoseconds activation_lead{300'000};

  /// Limits `close_linger` to less than the peer timeout, so that a closing rank leaves before the
  /// silence of a peer counts as a failure.
  void limit_close_linger(Nanoseconds peer_timeout) {
    close_linger = std::min(close_linger, peer_timeout * 2 / 3);
  }
};

}  // namespace tutti::engine
