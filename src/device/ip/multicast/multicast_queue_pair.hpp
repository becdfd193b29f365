// Base of the UD and UC queue pairs: the two sockets of one subgroup, one to send and one to
// receive, and the membership probes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/tally.hpp"
#include "device/device.hpp"
#include "device/ip/datagram_sender.hpp"
#include "device/ip/egress_gate.hpp"
#include "device/ip/interface.hpp"
#include "device/ip/ip_options.hpp"
#include "device/ip/multicast/group_arrivals.hpp"
#include "device/ip/socket.hpp"
#include "wire/arrival_check.hpp"
#include "wire/header.hpp"
#include "wire/tag_keys.hpp"

namespace tutti::device::ip {

/// The settings that all queue pairs of an endpoint share.
struct GroupSettings {
  Rank rank = kNoRank;
  std::uint32_t size = 0;
  std::uint16_t communicator = 0;
  Multicast multicast = Multicast::ud;
  std::uint32_t hops = 1;  ///< hop limit of multicast datagrams; with 1, no router forwards them
  TrafficClasses traffic{};
  /// True: the host has several ranks of the communicator, so the kernel must loop multicast back.
  bool shared_host = false;
  /// True: the queue pair of the slot exchange. It also receives unicast to this rank, unless
  /// another rank of the host uses the same port, but neither probes nor frames.
  bool slots = false;
  int send_buffer_bytes = 0;
  int receive_buffer_bytes = 0;
  std::shared_ptr<EgressPriority> egress{};  ///< egress priority at the interface; null: none
};

/// A multicast group and the interface on which this rank joins it.
struct GroupOnInterface {
  SocketAddress group;
  std::uint32_t interface_index = 0;
  std::string interface_name{};
};

class IpMulticastQueuePair : public MulticastQueuePair {
 public:
  /// Opens a queue pair of the kind (UD or UC) that the settings name.
  static Result<std::unique_ptr<IpMulticastQueuePair>> open(const GroupSettings& settings,
                                                            const Interface& interface,
                                                            const SocketAddress& group,
                                                            std::uint32_t subgroup);
  /// Sets the tag keys of all datagrams; must precede the first datagram. Without this call,
  /// datagrams carry a CRC instead of a tag.
  void set_tag_keys(const wire::TagKeys& keys) {
    keys_ = keys;
    arrivals_.use(keys);
  }
  /// Sets the address of each rank. Datagrams of a rank that come from another host are rejected,
  /// and so are all datagrams before this call.
  void set_members(std::shared_ptr<const std::vector<SocketAddress>> members) {
    members_ = std::move(members);
  }

  std::uint64_t unsent_bytes() override;
  bool reads_posted() override { return false; }  ///< the kernel copies posted data at once
  bool copy_and_verify(const ReceivedChunk& chunk, std::byte* destination) override;
  void release() override {}
  /// Leaves the group; has no effect if this rank is not in it.
  void leave_group();
  /// Joins the group; succeeds if this rank is in it already.
  Status join_group();
  Status post_probe(std::uint32_t attempt, std::uint32_t bytes) override;

  int receive_descriptor() const override { return receive_.get(); }
  int send_descriptor() const { return send_.get(); }
  /// Size in bytes of the receive buffer that the kernel granted, as the kernel counts it.
  std::uint64_t receive_buffer_bytes() const { return receive_buffer_bytes_; }
  /// The port on which this rank receives unicast; 0: none.
  std::uint16_t unicast_port() const { return unicast_port_; }
  /// Sets the unicast address of a rank that has one; must precede any post.
  void set_unicast_address(Rank rank, const SocketAddress& address) {
    unicast_addresses_.resize(settings_.size);
    unicast_addresses_[index(rank)] = address;
  }
  /// Sets the payload size of UC fragments in bytes, on which all ranks have agreed; must precede
  /// any post.
  virtual void set_fragment_bytes(std::uint32_t bytes) { (void)bytes; }
  /// Ends the claim to egress priority, because chunks that were refused will not be posted again.
  void release_claim() { gate_.withdraw(); }
  /// Returns the probes that have arrived since the last call; the thread of the send side or of
  /// the receive side may call this.
  std::vector<ProbeArrival> take_probes() { return probes_.take(); }
  /// Multicasts a frame of the reliable connection to the rank `to`; the other ranks drop it. A
  /// frame for which the send queue has no room counts as lost.
  void post_frame(Rank to, std::span<const std::byte> frame);
  /// The frames to this rank that arrived through the group; the threads of the send side and of
  /// the receive side may use them.
  GroupArrivals<FrameArrival>& frames() { return frames_; }
  bool arrivals_wait() const override { return probes_.any() || frames_.any(); }
  /// Adds the counts of this queue pair to `counters`; only the send side may call it.
  virtual void add_to(EndpointCounters& counters) const;

 protected:
  /// The counts of the receive side.
  struct ReceiveCounts {
    SingleWriterCounter datagrams;
    SingleWriterCounter bytes;
    SingleWriterCounter rejected_foreign;
    SingleWriterCounter rejected_integrity;
    SingleWriterCounter rejected_replayed;
    /// Probes and frames dropped because the queue for the endpoint's owner was full.
    SingleWriterCounter arrivals_dropped;
    SingleWriterCounter calls;
  };

  IpMulticastQueuePair(const GroupSettings& settings, std::uint32_t subgroup, bool offload)
      : settings_(settings),
        subgroup_(subgroup),
        arrivals_(settings.size),
        sender_(offload),
        gate_(settings.egress, true) {}

  int send_fd() const { return send_.get(); }
  /// The unicast address of a rank; null if it has none or `rank` is kNoRank.
  const SocketAddress* unicast_address(Rank rank) const {
    const bool known = index(rank) < unicast_addresses_.size() && unicast_addresses_[index(rank)];
    return known ? &*unicast_addresses_[index(rank)] : nullptr;
  }
  /// Writes the header, with its tag, of this rank's next datagram or message.
  void write_header(wire::PacketKind kind, std::uint32_t epoch, std::uint32_t psn,
                    std::span<const std::byte> payload, std::byte* header);
  /// True if the header, which is not verified yet, names this communicator and this subgroup, and
  /// the datagram came from the host of the rank that the header names as source.
  bool ours(const wire::Header& header, const SocketAddress& from) const {
    return header.communicator == settings_.communicator && header.subgroup == subgroup_ &&
           members_ && index(header.source) < members_->size() &&
           from.same_host((*members_)[index(header.source)]);
  }
  /// Decodes the header of a datagram that came from the address `from`. Returns nothing unless the
  /// datagram is of this communicator and of the given kind. Counts a foreign datagram; verifies a
  /// probe or a frame and keeps it for the owner of the endpoint.
  std::optional<wire::Header> accept(wire::PacketKind kind, std::span<const std::byte> datagram,
                                     const SocketAddress& from);

  DatagramSender& sender() { return sender_; }
  /// Records the result of a post; while refused chunks wait for room, they claim egress priority.
  std::uint32_t posted(const ChunkRun& run, std::uint32_t accepted, bool refused) {
    if (refused) {
      ++counters_.send_queue_full;
      gate_.claim(run.priority);
    } else {
      gate_.withdraw();
    }
    return accepted;
  }
  /// Prepares the post of a run. Returns how many payload bytes at the start of the run need not
  /// wait for data of a higher egress priority.
  std::size_t begin_post(const ChunkRun& run);
  /// The counts of the send side.
  EndpointCounters& counters() { return counters_; }
  ReceiveCounts& received() { return received_; }

 private:
  Status open_receive(const Interface& interface, const SocketAddress& group);
  Status bind_receive(const SocketAddress& group);
  Status open_send(const Interface& interface, const SocketAddress& group);
  /// Multicasts a single datagram at once.
  Status post_alone(wire::PacketKind kind, std::uint32_t epoch, std::uint32_t psn,
                    std::span<const std::byte> payload);
  /// True if the owner of the endpoint takes arrivals of this kind, besides chunks, from this queue
  /// pair. Other arrivals are rejected, because they would fill a queue that is never emptied.
  bool is_kept(wire::PacketKind kind) const {
    if (settings_.slots) return false;
    return kind == wire::PacketKind::probe ||
           (kind == wire::PacketKind::group_frame && subgroup_ == 0);
  }
  /// Keeps a verified probe or frame for the owner of the endpoint; false if there is no room.
  bool keep(const wire::Header& header, std::span<const std::byte> payload);
  /// True if a datagram is authentic and new; counts the datagram if it is rejected.
  template <typename Compute>
  bool passes(Rank source, const std::byte* header, Compute&& compute);

  GroupSettings settings_;
  std::uint32_t subgroup_;
  GroupOnInterface membership_;
  wire::TagKeys keys_;      ///< tag keys for sent datagrams
  std::uint64_t sent_ = 0;  ///< counter of the last datagram or message sent
  wire::ArrivalCheck arrivals_;
  Descriptor receive_;
  Descriptor send_;
  DatagramSender sender_;
  EgressGate gate_;  ///< egress gate of the socket send_
  GroupArrivals<ProbeArrival> probes_;
  GroupArrivals<FrameArrival> frames_;
  std::uint64_t receive_buffer_bytes_ = 0;
  std::uint16_t unicast_port_ = 0;
  /// The address of each rank; the ports in these addresses are not used. Null before
  /// `set_members`.
  std::shared_ptr<const std::vector<SocketAddress>> members_;
  /// Unicast addresses, indexed by rank; empty for a rank that has none.
  std::vector<std::optional<SocketAddress>> unicast_addresses_;
  /// True: the kernel loops this rank's own datagrams back, and the socket filter drops them.
  bool looped_back_ = false;
  EndpointCounters counters_;
  ReceiveCounts received_;
};

}  // namespace tutti::device::ip
