// A trigger unit ([Xu25] 1.1, 1.2) runs sequences of descriptors. A descriptor names the packets
// that it needs, and reads them in this order from the hash buffer of the unit. After the last
// packet the descriptor fires: it stores and sends its result, or ends the collective.
//
// A sequence that waits for a packet is parked while other sequences run. The unit combines
// operands that have arrived into a partial result before the last operand arrives, so that packets
// leave the buffer early.
//
// The unit is driven by polls. It uses no clock and no I/O. Only its constructor allocates memory,
// except for copies of payloads that the network has not taken when their collective ends. Outgoing
// packets go to its outbox; while the outbox is full, descriptors that must send wait.
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

/// Tells the host that the collective on a port has ended, or that a sequence on the port has
/// failed.
struct Completion {
  JobId job{};
  Port port{};
  Status status;
};

struct UnitSettings {
  /// Payload memory of the hash buffer, in bytes [Xu25] 1.3.
  std::uint32_t buffer_bytes = 512 * 1024;
  /// Size of a slot in bytes. A packet that waits in the buffer may have at most this much payload.
  std::uint32_t slot_bytes = 1024;
  std::uint32_t sequences = 64;  ///< number of sequences that can run at the same time
  std::uint32_t outbox_packets = 64;
  /// Time after which a sequence that waits for a packet fails; 0: it waits without limit.
  Nanoseconds wait_limit{0};
};

class TriggerUnit {
 public:
  struct Counters {
    std::uint64_t sequences = 0;
    std::uint64_t fired = 0;
    std::uint64_t operands = 0;  ///< number of operands folded, including the node's own
    /// Number of passes over partial results; each pass folds one or more operands.
    std::uint64_t folds = 0;
    /// Number of times a descriptor found the outbox or the completion queue full.
    std::uint64_t stalled = 0;
    std::uint64_t failures = 0;
  };

  /// `memory`, `directory` and `completions` belong to the node and must outlive the unit.
  TriggerUnit(NodeId node, const UnitSettings& settings, const MemoryMap& memory,
              UnitDirectory& directory, Ring<Completion>& completions);

  /// Starts a sequence that check_sequence() has accepted. Fails with resource_exhausted if too
  /// many sequences run (try again later), and with invalid_argument if the data of a reduction do
  /// not fit a slot.
  Status start(std::vector<Descriptor> sequence, Instant now);
  /// Puts a packet from the network into the hash buffer.
  HashBuffer::Wrote deliver(const PacketHeader& header, std::span<const std::byte> payload);
  /// Runs all sequences that can run; returns the number of descriptors that fired.
  std::size_t poll(Instant now);
  /// Ends all sequences of a job without a completion, and discards the received packets of the
  /// job. Outgoing packets no longer refer to the job's memory. Returns the number of discarded
  /// packets.
  std::uint32_t abort(JobId job);

  PacketOutbox& outbox() { return outbox_; }
  const HashBuffer& buffer() const { return buffer_; }
  const Counters& counters() const { return counters_; }
  std::uint32_t active_sequences() const { return active_; }
  /// Number of sequences that can run at the same time.
  std::uint32_t places() const { return settings_.sequences; }

 private:
  /// The progress of the current descriptor of a sequence.
  struct Progress {
    std::uint32_t named = 0;  ///< number of packets read so far, of those that the descriptor names
    bool local_folded = false;
    /// True: the data to send or to store are in the sequence's partial result; false: they are the
    /// descriptor's own data.
    bool held = false;
    bool ends = false;  ///< true: a packet with CollEndFlag has been read
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
    Status failure;  ///< error of the sequence; ok while the sequence runs
    std::vector<Descriptor> descriptors;
    const Descriptor& current() const { return descriptors[at]; }
  };
  /// Operands that can be combined now, and the slots to free afterwards.
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
  std::vector<std::byte> places_;  ///< partial results, `slot_bytes` bytes for each sequence
  std::uint32_t active_ = 0;
  std::uint32_t first_ = 0;  ///< sequence that runs first in the next poll
  Counters counters_;
};

}  // namespace tutti::trigger
