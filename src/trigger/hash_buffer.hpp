// Where packets wait for the descriptor that names them (T3).
//
// Open addressing with a bounded probe. Nine tenths of the slots are the home area: a key may lie
// in either of two windows of eight slots there, and takes the emptier one. The last tenth is kept
// for collisions: a key whose windows are full goes to a window of sixteen slots in that reserve.
// So a look-up reads 32 slots at most, whatever the load. Because a slot is found by its window and
// never by an unbroken run of neighbours, deletion just frees it: no tombstones, nothing to shift,
// and the payload never moves. (Linear probing with backward shift was the alternative; near its
// capacity its runs, and with them the shifts, grow as long as the table.)
//
// Each key in the table has a bit that says whether its packet is there. A read whose bit is not
// set is parked: it holds a slot for the packet, or where the table is too full its own landing
// place, so that the packet that somebody waits for can always be taken in. A full buffer therefore
// pushes back what is early but never stops what is due.
//
// Memory is allocated by the constructor only.
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
    std::uint32_t slots = 512;        ///< packets, the reserve for collisions included; 2 at least
    std::uint32_t slot_bytes = 1024;  ///< largest payload
    std::uint32_t readers = 64;       ///< reads that may be parked at once
  };

  /// A packet that is there. The payload stays valid until release().
  struct Stored {
    std::uint32_t slot = 0;
    std::uint32_t tag = 0;  ///< what the writer said about the packet
    std::span<const std::byte> payload;
  };

  enum class Wrote : std::uint8_t {
    stored,
    woke,      ///< stored, and a parked read goes on
    taken,     ///< a packet of this key waits already: push back
    full,      ///< no slot within the probe: push back
    too_long,  ///< longer than a slot: can never be stored
  };

  enum class Parked : std::uint8_t {
    parked,
    present,    ///< the packet is there: nothing to wait for
    contested,  ///< another reader is parked on this key, or this one on another
  };

  /// Totals since the start, and levels now.
  struct Counters {
    std::uint64_t stored = 0;
    std::uint64_t woke = 0;
    std::uint64_t pushed_back_taken = 0;
    std::uint64_t pushed_back_full = 0;
    std::uint64_t parked = 0;
    std::uint64_t landed = 0;  ///< parked reads that found no slot to hold
    std::uint32_t occupied = 0;
    std::uint32_t occupied_high_water = 0;
    std::uint32_t reserve = 0;
    std::uint32_t reserve_high_water = 0;

    friend bool operator==(const Counters&, const Counters&) = default;
  };

  explicit HashBuffer(const Settings& settings);

  /// Takes a packet in, or says why not. `tag` is kept with it.
  Wrote write(const PacketKey& key, std::uint32_t tag, std::span<const std::byte> payload);
  /// The packet of that name, if it is there.
  std::optional<Stored> peek(const PacketKey& key) const;
  /// Parks a read: next_woken() tells `reader` when the packet has come. A reader has one parked
  /// read, and by then has released what it read before.
  Parked park(const PacketKey& key, std::uint32_t reader);
  /// Frees a packet's slot.
  void release(std::uint32_t slot);
  /// Withdraws a reader's parked read, if it has one.
  void cancel(std::uint32_t reader);
  /// A reader whose packet has come since.
  std::optional<std::uint32_t> next_woken();
  /// Frees all packets of a job; returns how many there were. Parked reads stay.
  std::uint32_t discard(JobId job);

  /// Slots without the reserve: what 100% of occupancy means in table 1 of the source.
  std::uint32_t home_slots() const { return home_slots_; }
  std::uint32_t slots() const { return home_slots_ + reserve_slots_; }
  std::uint32_t slot_bytes() const { return slot_bytes_; }
  /// Packets waiting, as a percentage of the home area; up to 111 where the reserve is full too.
  double occupancy_percent() const { return 100.0 * counters_.occupied / home_slots_; }
  const Counters& counters() const { return counters_; }

  static constexpr std::uint32_t kHomeWindow = 8;
  static constexpr std::uint32_t kReserveWindow = 16;

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // no key: keys have 48 bits
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// Consecutive slots of an area, around its end.
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
  /// A free slot for the key, kNone where there is none within the probe.
  std::uint32_t place(std::uint64_t key) const;
  bool is_reserve(std::uint32_t slot) const { return slot >= home_slots_ && slot < slots(); }
  void claim(std::uint32_t slot, std::uint64_t key);
  void free_slot(std::uint32_t slot);
  void fill(std::uint32_t slot, std::uint32_t tag, std::span<const std::byte> payload);
  Stored stored_at(std::uint32_t slot) const;

  std::uint32_t home_slots_;
  std::uint32_t reserve_slots_;
  std::uint32_t slot_bytes_;
  std::uint32_t landings_ = 0;            ///< landing places in use
  std::vector<std::uint64_t> keys_;       ///< by slot; behind the table, a landing place per reader
  Bitmap valid_;                          ///< by slot
  std::vector<std::uint32_t> tags_;       ///< by slot
  std::vector<std::uint32_t> sizes_;      ///< by slot
  std::vector<std::uint32_t> waiting_;    ///< by slot: the reader parked on it
  std::vector<std::uint32_t> parked_at_;  ///< by reader: the slot that it is parked on
  std::vector<std::uint32_t> woken_;      ///< readers, a stack
  std::vector<std::byte> payloads_;
  Counters counters_;
};

}  // namespace tutti::trigger
