// What an engine may be tuned by. Every value has a unit in its name or type.
#pragma once

#include <cstdint>

#include "protocol/cutoff.hpp"
#include "protocol/fetch_ring.hpp"
#include "tutti/units.hpp"

namespace tutti::engine {

struct Settings {
  std::uint32_t chains = 0;              ///< M of the sequencer (K7); 0: learned (SendSchedule)
  std::uint32_t chunk_bytes = 0;         ///< 0: the device's largest
  std::uint64_t window_bytes = 0;        ///< 0: what every receiver has posted
  std::uint32_t pulses_in_flight = 4;    ///< k (T4)
  bool always_barrier = false;           ///< true: the ready barrier runs before every collective
  Nanoseconds reorder_delay{1'000'000};  ///< reordering that is forgiven before a chunk is lost
  protocol::Cutoff::Settings cutoff;
  protocol::FetchRing::Settings fetch;
  std::uint64_t assumed_bytes_per_second = 125'000'000;  ///< until measured: 1 Gbit/s
  std::uint32_t first_epoch = 1;  ///< number of the first collective; it wraps at 2^32
  /// Broadcasts up to this end without a handshake: their root keeps a copy (RetainedBlocks).
  std::uint64_t retain_bytes = 0;
  Nanoseconds ack_delay{1'000'000};      ///< without news, before a receiver says what it has
  Nanoseconds activation_lead{300'000};  ///< the successor is activated this long before the end
};

}  // namespace tutti::engine
