// The buffer in which packets wait for the descriptor that names them [Xu25] 1.3.
//
// A hash table with open addressing, in which a look-up reads at most 32 slots. Nine tenths of the
// slots are the home area, where a key has two windows of eight slots and uses the emptier window.
// If both are full, the key uses a window of sixteen slots in the last tenth, the reserve. Freeing
// a slot moves no other packet, so payloads keep their addresses.
//
// A read of a missing packet is parked: it reserves a slot for the packet or, if no slot is free,
// the landing place of its reader, which has room for one packet. A full buffer therefore refuses
// early packets, but always accepts a packet for which a reader waits.
//
// Only the constructor allocates memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bits.hpp"
#include "trigger/packet_key.hpp"

namespace tutti::trigger {

class HashBuffer {
 public:
  struct Settings {
    /// Number of slots, the reserve for collisions included; at least 2.
    std::uint32_t slots = 512;
    std::uint32_t slot_bytes = 1024;  ///< size of a slot: limit of a payload in bytes
    std::uint32_t readers = 64;       ///< number of reads that may be parked at once
  };

  /// A packet in the buffer. Its payload remains valid until release().
  struct Stored {
    std::uint32_t slot = 0;
    std::uint32_t tag = 0;  ///< tag that the caller of write() gave
    std::span<const std::byte> payload;
  };

  enum class Wrote : std::uint8_t {
    stored,
    woke,  ///< stored, and the reader that waits for the packet is woken
    /// Not stored, because the buffer already contains a packet with this key: deliver the new
    /// packet again later.
    taken,
    /// Not stored, because all slots in the windows of the key are in use: deliver it again later.
    full,
    too_long,  ///< not stored, because the packet is longer than a slot and can never be stored
  };

  enum class Parked : std::uint8_t {
    parked,
    present,  ///< not parked: the packet has arrived already
    /// Not parked: another reader waits for this packet, this reader waits for another packet, or
    /// no slot is free and the reader's landing place contains a packet.
    contested,
  };

  /// Totals since the start, and the present and highest use of slots.
  struct Counters {
    std::uint64_t stored = 0;
    std::uint64_t woke = 0;
    std::uint64_t pushed_back_taken = 0;
    std::uint64_t pushed_back_full = 0;
    std::uint64_t parked = 0;
    /// Number of parked reads that found no free slot and reserved the landing place of their
    /// reader instead.
    std::uint64_t landed = 0;
    std::uint32_t occupied = 0;
    std::uint32_t occupied_high_water = 0;
    std::uint32_t reserve = 0;
    std::uint32_t reserve_high_water = 0;

    friend bool operator==(const Counters&, const Counters&) = default;
  };

  explicit HashBuffer(const Settings& settings);

  /// Stores a packet with its tag, or returns the reason why it is not stored.
  Wrote write(const PacketKey& key, std::uint32_t tag, std::span<const std::byte> payload);
  /// Finds the packet of a key, if it has arrived.
  std::optional<Stored> peek(const PacketKey& key) const;
  /// Parks a read of a missing packet; next_woken() returns `reader` once the packet has arrived. A
  /// reader may have at most one parked read, and must have released its previous packet before.
  Parked park(const PacketKey& key, std::uint32_t reader);
  /// Frees the slot of a packet.
  void release(std::uint32_t slot);
  /// Cancels a reader's parked read, if it has one.
  void cancel(std::uint32_t reader);
  /// Returns a reader whose packet has arrived, if there is one.
  std::optional<std::uint32_t> next_woken();
  /// Frees all packets of a job and returns their number. Parked reads remain.
  std::uint32_t discard(JobId job);

  /// Number of slots without the reserve. [Xu25] table 1 counts this number as 100 % occupancy.
  std::uint32_t home_slots() const { return home_slots_; }
  std::uint32_t slots() const { return home_slots_ + reserve_slots_; }
  std::uint32_t slot_bytes() const { return slot_bytes_; }
  const Counters& counters() const { return counters_; }

  static constexpr std::uint32_t kHomeWindow = 8;
  static constexpr std::uint32_t kReserveWindow = 16;

 private:
  // Value that marks a free slot. No key has this value, because keys have only 48 bits.
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Consecutive slots of one area. A window that passes the end of the area continues at the start
  /// of the area.
  struct Window {
    std::uint32_t area_begin = 0;
    std::uint32_t area_slots = 1;
    std::uint32_t first = 0;
    std::uint32_t size = 0;
    std::uint32_t slot(std::uint32_t i) const { return area_begin + (first + i) % area_slots; }
  };

  std::array<Window, 3> windows(std::uint64_t key) const;
  std::uint32_t find(std::uint64_t key) const;
  std::uint32_t find_in(const Window& window, std::uint64_t key) const;
  std::uint32_t count_free(const Window& window) const;
  /// Finds a free slot in the windows of a key; kNone if there is none.
  std::uint32_t place(std::uint64_t key) const;
  bool is_reserve(std::uint32_t slot) const { return slot >= home_slots_ && slot < slots(); }
  void claim(std::uint32_t slot, std::uint64_t key);
  void free_slot(std::uint32_t slot);
  void fill(std::uint32_t slot, std::uint32_t tag, std::span<const std::byte> payload);
  Stored stored_at(std::uint32_t slot) const;

  std::uint32_t home_slots_;
  std::uint32_t reserve_slots_;
  std::uint32_t slot_bytes_;
  std::uint32_t landings_ = 0;  ///< number of landing places in use
  /// For each place, the key of the packet that the place contains or for which it is reserved;
  /// kFree if the place is free. The slots come first, then the landing places of the readers.
  std::vector<std::uint64_t> keys_;
  Bitmap valid_;                      ///< for each slot, true if a packet has arrived there
  std::vector<std::uint32_t> tags_;   ///< for each slot, tag of the packet
  std::vector<std::uint32_t> sizes_;  ///< for each slot, size of the payload in bytes
  /// For each slot, the reader that waits for the packet of this slot; kNone if there is none.
  std::vector<std::uint32_t> waiting_;
  /// For each reader, the slot that its parked read reserves; kNone if it has none.
  std::vector<std::uint32_t> parked_at_;
  std::vector<std::uint32_t> woken_;  ///< readers whose packet has arrived, as a stack
  std::vector<std::byte> payloads_;
  Counters counters_;
};

}  // namespace tutti::trigger
