// Base of the UD and UC queue pairs: the sockets of one subgroup, one to send and one to receive,
// and the membership probes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/tally.hpp"
#include "device/device.hpp"
#include "device/ip/datagram_sender.hpp"
#include "device/ip/egress_priority.hpp"
#include "device/ip/interface.hpp"
#include "device/ip/ip_options.hpp"
#include "device/ip/socket.hpp"
#include "wire/header.hpp"
#include "wire/integrity.hpp"

namespace tutti::device::ip {

/// Settings that all queue pairs of an endpoint share.
struct GroupSettings {
  Rank rank = kNoRank;
  std::uint32_t size = 0;
  std::uint16_t communicator = 0;
  Multicast multicast = Multicast::ud;
  bool shared_host = false;      ///< another rank of this host receives: the kernel must loop back
  bool receive_unicast = false;  ///< also receive unicast to this rank if the port is its own
  int send_buffer_bytes = 0;
  int receive_buffer_bytes = 0;
  std::shared_ptr<EgressPriority> egress{};  ///< priority at the interface; null: none
};

/// A membership probe that arrived through a group.
struct ProbeArrival {
  Rank source = kNoRank;
  std::uint32_t subgroup = 0;
};

class IpMulticastQueuePair : public MulticastQueuePair {
 public:
  /// Opens a queue pair of the kind named in the settings.
  static Result<std::unique_ptr<IpMulticastQueuePair>> open(const GroupSettings& settings,
                                                            const Interface& interface,
                                                            const SocketAddress& group,
                                                            std::uint32_t subgroup,
                                                            wire::Integrity integrity);

  std::uint64_t unsent_bytes() override;
  bool reads_posted() override { return false; }  ///< the kernel has copied the data
  bool copy_and_verify(const ReceivedChunk& chunk, std::byte* destination) override;
  void release() override {}
  Status post_probe(std::uint32_t attempt) override;

  int receive_descriptor() const override { return receive_.get(); }
  int send_descriptor() const { return send_.get(); }
  /// Size of the receive buffer that the kernel granted, by its own accounting.
  std::uint64_t receive_buffer_bytes() const { return receive_buffer_bytes_; }
  /// The port that receives unicast to this rank; 0: none.
  std::uint16_t unicast_port() const { return unicast_port_; }
  /// Sets the unicast address of a rank that receives at one; before any post.
  void set_unicast_address(Rank rank, const SocketAddress& address) {
    unicast_addresses_.resize(settings_.size);
    unicast_addresses_[index(rank)] = address;
  }
  /// Sets the payload of one segment of a message, which the ranks agreed on; before any post.
  virtual void set_segment_bytes(std::uint32_t bytes) { (void)bytes; }
  /// Ends the claim to priority: refused chunks will not be posted again.
  void release_claim() { claim_.waits(false); }
  /// Moves out the probes since the last call; may be called on either side.
  std::vector<ProbeArrival> take_probes();
  /// Adds this queue pair's counts; called on the send side.
  virtual void add_to(EndpointCounters& counters) const;

 protected:
  /// Counts of the receive side.
  struct ReceiveCounts {
    SingleWriterCounter datagrams;
    SingleWriterCounter bytes;
    SingleWriterCounter rejected_foreign;
    SingleWriterCounter rejected_integrity;
    SingleWriterCounter calls;
  };

  IpMulticastQueuePair(const GroupSettings& settings, std::uint32_t subgroup,
                       wire::Integrity integrity, bool offload)
      : settings_(settings),
        subgroup_(subgroup),
        integrity_(std::move(integrity)),
        sender_(offload),
        claim_(settings.egress) {}

  int send_fd() const { return send_.get(); }
  /// The unicast address of a rank; null if it has none or `rank` is kNoRank.
  const SocketAddress* unicast_address(Rank rank) const {
    const bool known = index(rank) < unicast_addresses_.size() && unicast_addresses_[index(rank)];
    return known ? &*unicast_addresses_[index(rank)] : nullptr;
  }
  /// Writes the header of this rank's next datagram or message, with its tag.
  void write_header(wire::PacketKind kind, std::uint32_t epoch, std::uint32_t psn,
                    std::span<const std::byte> payload, std::byte* header) const;
  /// True if the header names a rank of this communicator and this subgroup; not verified.
  bool ours(const wire::Header& header) const {
    return header.communicator == settings_.communicator && header.subgroup == subgroup_ &&
           index(header.source) < settings_.size;
  }
  /// The header of a datagram of `kind`. Nothing if it was a probe, which is kept, or a foreign
  /// datagram, which is counted.
  std::optional<wire::Header> accept(wire::PacketKind kind, std::span<const std::byte> datagram);

  DatagramSender& sender() { return sender_; }
  /// Records the end of a post: if chunks were refused, they wait for room.
  std::uint32_t posted(std::uint32_t accepted, bool refused) {
    if (refused) ++counters_.send_queue_full;
    claim_.waits(refused);
    return accepted;
  }
  /// Counts of the send side.
  EndpointCounters& counters() { return counters_; }
  ReceiveCounts& received() { return received_; }

 private:
  Status open_receive(const Interface& interface, const SocketAddress& group);
  Status bind_receive(const SocketAddress& group);
  Status open_send(const Interface& interface, const SocketAddress& group);
  void on_probe(Rank source);

  GroupSettings settings_;
  std::uint32_t subgroup_;
  wire::Integrity integrity_;
  Descriptor receive_;
  Descriptor send_;
  DatagramSender sender_;
  EgressClaim claim_;
  std::mutex probes_mutex_;
  std::atomic<bool> has_probes_{false};  ///< avoids the lock, since probes are rare
  std::vector<ProbeArrival> probes_;
  std::uint64_t receive_buffer_bytes_ = 0;
  std::uint16_t unicast_port_ = 0;
  std::vector<std::optional<SocketAddress>> unicast_addresses_;  ///< by rank
  bool looped_back_ = false;  ///< the kernel delivers our own datagrams to our filter
  EndpointCounters counters_;
  ReceiveCounts received_;
};

}  // namespace tutti::device::ip
