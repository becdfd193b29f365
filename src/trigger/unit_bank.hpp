// The collective units of one node (T5): eight of them share the jobs by load, up to 32 at a time.
//
// The host posts sequences and drains completions; the network delivers packets and drains what is
// to be sent. Nothing here blocks, reads a clock or performs I/O. A descriptor without C is a
// point-to-point message: it goes out at once and never meets a unit.
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
    std::uint32_t ports = 256;    ///< of each job; at most kPorts
    std::uint32_t messages = 64;  ///< point-to-point messages that wait for the host
    UnitSettings unit;
  };

  enum class Delivered : std::uint8_t {
    accepted,
    pushed_back,  ///< no room now: the network keeps the packet and tries again
    refused,      ///< never: misrouted, too long, or an address that is not the job's
  };

  struct Counters {
    std::uint64_t packets = 0;      ///< accepted
    std::uint64_t pushed_back = 0;  ///< back-pressure: deliveries that had to be tried again
    std::uint64_t refused = 0;
    std::uint64_t posts_deferred = 0;  ///< sequences that the host has to post again
  };

  /// A point-to-point message.
  struct Message {
    PacketHeader header;
    std::vector<std::byte> payload;
  };

  explicit UnitBank(const Settings& settings);

  // ---- The host's side --------------------------------------------------------------------------
  /// Registers memory of a job, for as long as the job is open.
  Result<Address> add_memory(JobId job, std::span<std::byte> memory) {
    return memory_.add(job, memory);
  }
  /// Hands over a sequence. Errors: resource_exhausted (post again later: all sequences of the unit
  /// or all jobs are taken), invalid_argument (no unit can run it).
  Status post(std::vector<Descriptor> sequence, Instant now);
  /// Sends one descriptor without C. resource_exhausted: the outbox is full, send again later.
  Status send_point_to_point(const Descriptor& descriptor);
  /// Ends a job: its sequences without a word, its packets, its memory. Returns the packets that
  /// still waited; 0 where every sequence had ended well.
  std::uint32_t close_job(JobId job);
  Ring<Completion>& completions() { return completions_; }
  Ring<Message>& messages() { return messages_; }

  // ---- The network's side -----------------------------------------------------------------------
  Delivered deliver(const PacketHeader& header, std::span<const std::byte> payload);
  /// The outbox whose front goes next; null where nothing is to be sent.
  PacketOutbox* next_outbox();

  /// Runs every unit once; returns how many descriptors have fired.
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
