// A trigger unit ([Xu25] 1.1, 1.2): runs sequences of descriptors. Packets wait in its hash buffer
// until the descriptor that names them reads them, in the order named.
//
// A sequence that waits for a packet is parked and the others continue. The unit folds operands as
// far as they are present, in the named order and in one pass over memory. The partial result stays
// in the sequence's place, so packets leave the buffer as early as their order allows.
//
// Poll-driven: no clock, no I/O, no allocation while running. Outgoing packets go to the unit's
// outbox. While the outbox is full, descriptors that must send wait, and so do the packets that
// they would read.
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

/// A notification to the host: a collective ended on a port, or a sequence failed on that port.
struct Completion {
  JobId job{};
  Port port{};
  Status status;
};

struct UnitSettings {
  std::uint32_t buffer_bytes = 512 * 1024;  ///< payload bytes of the hash buffer [Xu25] 1.3
  std::uint32_t slot_bytes = 1024;          ///< size of the largest packet that may wait
  std::uint32_t sequences = 64;             ///< number of sequences that can run side by side
  std::uint32_t outbox_packets = 64;
  /// Longest wait for a packet, after which its sequence fails; 0: unlimited.
  Nanoseconds wait_limit{0};
};

class TriggerUnit {
 public:
  struct Counters {
    std::uint64_t sequences = 0;
    std::uint64_t fired = 0;
    std::uint64_t operands = 0;  ///< operands folded, the node's own data included
    std::uint64_t folds = 0;  ///< passes over a partial result; operands / folds is the mean fan-in
    std::uint64_t stalled = 0;  ///< polls in which a descriptor found the outbox full
    std::uint64_t failures = 0;
  };

  /// Map, directory and completions belong to the node and outlive the unit.
  TriggerUnit(NodeId node, const UnitSettings& settings, const MemoryMap& memory,
              UnitDirectory& directory, Ring<Completion>& completions);

  /// Starts a sequence that check_sequence() has accepted. Fails with resource_exhausted if all
  /// places are in use (try again), and with invalid_argument if data are too long for this unit's
  /// slots.
  Status start(std::vector<Descriptor> sequence, Instant now);
  /// Puts a packet from the network into the hash buffer.
  HashBuffer::Wrote deliver(const PacketHeader& header, std::span<const std::byte> payload);
  /// Runs all sequences that can run; returns the number of descriptors that fired.
  std::size_t poll(Instant now);
  /// Ends all sequences of a job, reporting no completions, and discards the job's packets from the
  /// hash buffer. Returns the number of discarded packets.
  std::uint32_t abort(JobId job);

  PacketOutbox& outbox() { return outbox_; }
  const HashBuffer& buffer() const { return buffer_; }
  const Counters& counters() const { return counters_; }
  std::uint32_t active_sequences() const { return active_; }
  /// Number of sequences that can run side by side.
  std::uint32_t places() const { return settings_.sequences; }

 private:
  /// The progress of a sequence's current descriptor.
  struct Progress {
    std::uint32_t named = 0;  ///< named packets read so far
    bool local_folded = false;
    bool held = false;  ///< true: the data are in the sequence's place instead of the descriptor
    bool ends = false;  ///< true: a packet read has ended the collective
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
    Status failure;  ///< error of the sequence; ok while it runs
    std::vector<Descriptor> descriptors;
    const Descriptor& current() const { return descriptors[at]; }
  };
  /// The operands that can be folded now, and the slots to free afterwards.
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
  std::vector<std::byte> places_;  ///< partial results, one place for each sequence
  std::uint32_t active_ = 0;
  std::uint32_t first_ = 0;  ///< sequence that runs first in the next poll
  Counters counters_;
};

}  // namespace tutti::trigger
