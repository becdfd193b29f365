// The trigger units of one node ([Xu25] 1.1). By default eight units share the sequences of up to
// 32 jobs according to load.
//
// The host posts sequences and drains completions; the network delivers packets and drains outgoing
// ones. No function blocks, reads a clock or performs I/O. A descriptor that is not part of a
// collective is a point-to-point message, which is sent at once and bypasses the units.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trigger/trigger_unit.hpp"

namespace tutti::trigger {

class UnitBank {
 public:
  struct Settings {
    NodeId node{};
    std::uint32_t units = 8;
    std::uint32_t jobs = 32;
    std::uint32_t ports = 256;    ///< number of ports of each job; at most kPorts
    std::uint32_t messages = 64;  ///< number of point-to-point messages that may wait for the host
    UnitSettings unit;
  };

  enum class Delivered : std::uint8_t {
    accepted,
    /// There is no room for the packet: the network must keep the packet and deliver it again.
    pushed_back,
    /// The packet is misrouted, has a wrong length, or names an address outside the job's memory.
    refused,
  };

  struct Counters {
    std::uint64_t packets = 0;      ///< accepted packets
    std::uint64_t pushed_back = 0;  ///< deliveries that were not accepted for lack of room
    std::uint64_t refused = 0;
    /// Number of posts that failed with resource_exhausted; the host must repeat them.
    std::uint64_t posts_deferred = 0;
  };

  /// A point-to-point message that the host has not read yet.
  struct Message {
    PacketHeader header;
    std::vector<std::byte> payload;
  };

  explicit UnitBank(const Settings& settings);

  // ---- The host's side --------------------------------------------------------------------------
  /// Registers memory of a job until close_job().
  Result<Address> add_memory(JobId job, std::span<std::byte> memory) {
    return memory_.add(job, memory);
  }
  /// Starts a sequence. Fails with resource_exhausted if too many sequences or jobs run (post again
  /// later), and with invalid_argument if no unit can run the sequence.
  Status post(std::vector<Descriptor> sequence, Instant now);
  /// Sends a point-to-point message: a descriptor whose `collective` is false. Fails with
  /// resource_exhausted while the outbox is full, and with invalid_argument if the descriptor is
  /// part of a collective or its data is not in registered memory.
  Status send_point_to_point(const Descriptor& descriptor);
  /// Ends a job: removes its received packets, its memory and its sequences. The host gets no
  /// completions for the removed sequences, and may free the memory. Returns the number of removed
  /// packets, which is 0 if every sequence ended without error.
  std::uint32_t close_job(JobId job);
  Ring<Completion>& completions() { return completions_; }
  Ring<Message>& messages() { return messages_; }

  // ---- The network's side -----------------------------------------------------------------------
  Delivered deliver(const PacketHeader& header, std::span<const std::byte> payload);
  /// The outbox from which the network must take the next packet; null if all outboxes are empty.
  PacketOutbox* next_outbox();

  /// Runs every unit once; returns the number of descriptors that fired.
  std::size_t poll(Instant now);

  NodeId node() const { return settings_.node; }
  std::uint32_t units() const { return static_cast<std::uint32_t>(units_.size()); }
  const TriggerUnit& unit(std::uint32_t at) const { return *units_[at]; }
  const UnitDirectory& directory() const { return directory_; }
  const Counters& counters() const { return counters_; }
  std::uint32_t slot_bytes() const { return settings_.unit.slot_bytes; }
  std::uint32_t ports() const { return settings_.ports; }

 private:
  std::uint32_t least_loaded() const;
  TriggerUnit* unit_for(JobId job, Port port);
  Delivered deliver_message(const PacketHeader& header, std::span<const std::byte> payload);
  Delivered deliver_trigger(const PacketHeader& header, std::span<const std::byte> payload);
  Delivered counted(Delivered delivered);

  Settings settings_;
  MemoryMap memory_;
  UnitDirectory directory_;
  Ring<Completion> completions_;
  Ring<Message> messages_;
  PacketOutbox point_to_point_;
  std::vector<std::unique_ptr<TriggerUnit>> units_;
  std::uint32_t next_outbox_ = 0;
  Counters counters_;
};

}  // namespace tutti::trigger
