// What the queue pairs of both kinds have in common: one subgroup's group, with a socket to send
// and a socket to receive, and the probes.
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
#include "device/ip/ip_device.hpp"
#include "device/ip/socket.hpp"
#include "wire/header.hpp"
#include "wire/integrity.hpp"

namespace tutti::device::ip {

/// What all queue pairs of an endpoint share.
struct GroupSettings {
  Rank rank = kNoRank;
  std::uint32_t size = 0;
  std::uint16_t communicator = 0;
  Multicast multicast = Multicast::ud;
  bool shared_host = false;  ///< another rank receives on this host: the kernel must loop back
  bool hear_alone = false;   ///< also what is sent to this rank alone, if its host can tell
  int send_buffer_bytes = 0;
  int receive_buffer_bytes = 0;
  std::shared_ptr<EgressPriority> injection{};  ///< of the interface; null: nobody holds back
};

/// A membership probe that came by a group.
struct ProbeArrival {
  Rank source = kNoRank;
  std::uint32_t subgroup = 0;
};

class IpMulticastQueuePair : public MulticastQueuePair {
 public:
  /// A queue pair of the kind that the settings name.
  static Result<std::unique_ptr<IpMulticastQueuePair>> open(const GroupSettings& settings,
                                                            const Interface& interface,
                                                            const SocketAddress& group,
                                                            std::uint32_t subgroup,
                                                            wire::Integrity integrity);

  std::uint64_t unsent_bytes() override;
  bool reads_posted() override { return false; }  ///< the kernel copies
  bool place(const ReceivedChunk& chunk, std::byte* destination) override;
  void release() override {}
  Status post_probe(std::uint32_t attempt) override;

  int receive_descriptor() const override { return receive_.get(); }
  int send_descriptor() const { return send_.get(); }
  /// What the kernel granted for the receive queue, by its own accounting.
  std::uint64_t receive_buffer_bytes() const { return receive_buffer_bytes_; }
  /// The port at which it hears what is sent to this rank alone; 0: it does not.
  std::uint16_t port_alone() const { return port_alone_; }
  /// Who hears what is sent to it alone, and where; before any is posted.
  void set_alone(Rank rank, const SocketAddress& address) {
    alone_.resize(settings_.size);
    alone_[index(rank)] = address;
  }
  /// How much of a message one datagram carries, as the ranks have agreed, before any is posted.
  virtual void set_segment_bytes(std::uint32_t bytes) { (void)bytes; }
  /// Nothing more will be posted of what did not fit.
  void give_up_turn() { turn_.waits(false); }
  /// Moves out the probes that came since the last call; on either side.
  std::vector<ProbeArrival> take_probes();
  /// Adds this queue pair's counts; on the send side.
  virtual void add_to(EndpointCounters& counters) const;

 protected:
  /// What is counted on the receive side.
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
        turn_(settings.injection) {}

  int send_fd() const { return send_.get(); }
  /// Where one rank alone hears; null: it does not, or all are meant.
  const SocketAddress* alone(Rank rank) const {
    const bool known = index(rank) < alone_.size() && alone_[index(rank)];
    return known ? &*alone_[index(rank)] : nullptr;
  }
  /// The header of this rank's next datagram or message, with its tag.
  void write_header(wire::PacketKind kind, std::uint32_t epoch, std::uint32_t psn,
                    std::span<const std::byte> payload, std::byte* header) const;
  /// Whether it comes from a rank of this communicator, by this subgroup, as far as it says.
  bool ours(const wire::Header& header) const {
    return header.communicator == settings_.communicator && header.subgroup == subgroup_ &&
           index(header.source) < settings_.size;
  }
  /// The header of a datagram of `kind`; nothing where it was a probe, which is kept, or is
  /// somebody else's, which is counted.
  std::optional<wire::Header> accept(wire::PacketKind kind, std::span<const std::byte> datagram);

  DatagramSender& sender() { return sender_; }
  /// Says how a post ended: whether chunks of it have to wait for room.
  std::uint32_t posted(std::uint32_t accepted, bool refused) {
    if (refused) ++counters_.send_queue_full;
    turn_.waits(refused);
    return accepted;
  }
  /// The send side's counts.
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
  EgressClaim turn_;
  std::mutex probes_mutex_;
  std::atomic<bool> has_probes_{false};  ///< they are rare: spares looking into `probes_`
  std::vector<ProbeArrival> probes_;
  std::uint64_t receive_buffer_bytes_ = 0;
  std::uint16_t port_alone_ = 0;
  std::vector<std::optional<SocketAddress>> alone_;  ///< by rank
  bool looped_back_ = false;  ///< the kernel delivers our own datagrams to our own filter
  EndpointCounters counters_;
  ReceiveCounts received_;
};

}  // namespace tutti::device::ip
