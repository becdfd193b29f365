// One collective unit (T1, T2, T5): runs sequences of descriptors, fed by packets that it keeps in
// its hash buffer until the descriptor that names them asks for them, in the order named.
//
// A sequence that waits for a packet is parked and the others go on. Data of a reduction are folded
// as far as they are there, in the named order and in one pass over memory; the partial result
// waits in a place of the sequence, so that packets leave the buffer as early as their order
// allows.
//
// Poll-driven; no clock, no I/O, no allocation while running. What it sends stands in its outbox;
// while that is full, the descriptors that want to send wait, and so does what they would read.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trigger/descriptor.hpp"
#include "trigger/hash_buffer.hpp"
#include "trigger/memory_map.hpp"
#include "trigger/outbox.hpp"
#include "trigger/ring.hpp"
#include "trigger/unit_directory.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::trigger {

/// What the host hears: a collective has ended on a port, or a sequence has failed there.
struct Completion {
  JobId job{};
  Port port{};
  Status status;
};

struct UnitSettings {
  std::uint32_t buffer_bytes = 512 * 1024;  ///< of payloads (T3)
  std::uint32_t slot_bytes = 1024;          ///< the largest packet that may wait
  std::uint32_t sequences = 64;             ///< run side by side
  std::uint32_t outbox_packets = 64;
  Nanoseconds wait_limit{0};  ///< a packet that takes longer fails its sequence; 0: never
};

class TriggerUnit {
 public:
  struct Counters {
    std::uint64_t sequences = 0;
    std::uint64_t fired = 0;
    std::uint64_t operands = 0;  ///< folded, own data included
    std::uint64_t folds = 0;     ///< passes over a partial result; operands / folds is the fan-in
    std::uint64_t stalled = 0;   ///< polls in which a descriptor found the outbox full
    std::uint64_t failures = 0;
  };

  /// The map, the directory and the completions are the node's and outlive the unit.
  TriggerUnit(NodeId node, const UnitSettings& settings, const MemoryMap& memory,
              UnitDirectory& directory, Ring<Completion>& completions);

  /// Takes a sequence that check_sequence() has passed. resource_exhausted: all places are in use,
  /// ask again; invalid_argument: data too long for this unit's slots.
  Status start(std::vector<Descriptor> sequence, Instant now);
  /// Takes a packet into the buffer.
  HashBuffer::Wrote deliver(const PacketHeader& header, std::span<const std::byte> payload);
  /// Runs what can run; returns how many descriptors have fired.
  std::size_t poll(Instant now);
  /// Ends a job's sequences without a word, and frees its packets; returns how many waited.
  std::uint32_t abort(JobId job);

  PacketOutbox& outbox() { return outbox_; }
  const HashBuffer& buffer() const { return buffer_; }
  const Counters& counters() const { return counters_; }
  std::uint32_t active_sequences() const { return active_; }
  /// Sequences that can run side by side.
  std::uint32_t places() const { return settings_.sequences; }

 private:
  /// How far the current descriptor has come.
  struct Progress {
    std::uint32_t named = 0;  ///< packets read
    bool local_folded = false;
    bool held = false;  ///< data are in the sequence's place, not in the descriptor
    bool ends = false;  ///< a packet said so
    std::uint32_t data_bytes = 0;
    Address remote_address = kNoAddress;
    Port destination_port{};
  };
  struct Sequence {
    bool active = false;
    bool parked = false;
    std::size_t at = 0;
    Instant waiting_since;
    Progress progress;
    Status failure;  ///< ok while it runs
    std::vector<Descriptor> descriptors;
    const Descriptor& current() const { return descriptors[at]; }
  };
  /// Operands that are there, and the slots to free once they are folded.
  struct Batch {
    std::array<const std::byte*, kMaxChildren + 2> operands{};
    std::uint32_t operand_count = 0;
    std::array<std::uint32_t, kMaxChildren> slots{};
    std::uint32_t slot_count = 0;
  };

  std::size_t run(std::uint32_t at, Instant now);
  bool gather(std::uint32_t at, Instant now);
  bool add_local(Sequence& sequence, Batch& batch);
  bool add_packet(std::uint32_t at, const PacketKey& key, const HashBuffer::Stored& packet,
                  Batch& batch);
  void fold(std::uint32_t at, Batch& batch);
  void park(std::uint32_t at, const PacketKey& key, Instant now);
  bool fire(std::uint32_t at);
  bool store(Sequence& sequence, std::span<const std::byte> data);
  void send(const Sequence& sequence, std::span<const std::byte> data);
  void next_descriptor(std::uint32_t at);
  void fail(Sequence& sequence, Status status);
  bool report_failure(std::uint32_t at);
  void end(std::uint32_t at);
  void check_waits(Instant now);
  std::optional<std::span<const std::byte>> local_data(const Descriptor& descriptor) const;
  std::span<std::byte> place_of(std::uint32_t at);

  NodeId node_;
  UnitSettings settings_;
  const MemoryMap* memory_;
  UnitDirectory* directory_;
  Ring<Completion>* completions_;
  HashBuffer buffer_;
  PacketOutbox outbox_;
  std::vector<Sequence> sequences_;
  std::vector<std::byte> places_;  ///< a slot per sequence: its partial result
  std::uint32_t active_ = 0;
  std::uint32_t first_ = 0;  ///< who runs first in the next poll
  Counters counters_;
};

}  // namespace tutti::trigger
