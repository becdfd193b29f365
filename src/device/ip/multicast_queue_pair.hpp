// UD multicast over UDP: one subgroup's group, with a socket to send and a socket to receive.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/tally.hpp"
#include "device/device.hpp"
#include "device/ip/datagram_batch.hpp"
#include "device/ip/datagram_sender.hpp"
#include "device/ip/interface.hpp"
#include "device/ip/socket.hpp"
#include "wire/header.hpp"
#include "wire/integrity.hpp"

namespace tutti::device::ip {

/// What all queue pairs of an endpoint share.
struct GroupSettings {
  Rank rank = kNoRank;
  std::uint32_t size = 0;
  std::uint16_t communicator = 0;
  bool shared_host = false;  ///< another rank receives on this host: the kernel must loop back
  int send_buffer_bytes = 0;
  int receive_buffer_bytes = 0;
};

/// A membership probe that came by a group.
struct ProbeArrival {
  Rank source = kNoRank;
  std::uint32_t subgroup = 0;
};

class IpMulticastQueuePair final : public MulticastQueuePair {
 public:
  static Result<std::unique_ptr<IpMulticastQueuePair>> open(const GroupSettings& settings,
                                                            const Interface& interface,
                                                            const SocketAddress& group,
                                                            std::uint32_t subgroup,
                                                            wire::Integrity integrity);

  Result<std::uint32_t> post(const ChunkRun& run) override;
  std::uint64_t unsent_bytes() override;
  bool reads_posted() override { return false; }  ///< the kernel copies
  std::size_t poll(std::span<ReceivedChunk> chunks) override;
  bool place(const ReceivedChunk& chunk, std::byte* destination) override;
  void release() override {}
  Status post_probe(std::uint32_t attempt) override;

  int receive_descriptor() const override { return receive_.get(); }
  int send_descriptor() const { return send_.get(); }
  /// What the kernel granted for the receive queue, by its own accounting.
  std::uint64_t receive_buffer_bytes() const { return receive_buffer_bytes_; }
  /// Moves out the probes that came since the last call; on either side.
  std::vector<ProbeArrival> take_probes();
  /// Adds this queue pair's counts; on the send side.
  void add_to(EndpointCounters& counters) const;

 private:
  IpMulticastQueuePair(const GroupSettings& settings, std::uint32_t subgroup,
                       wire::Integrity integrity, bool offload)
      : settings_(settings),
        subgroup_(subgroup),
        integrity_(std::move(integrity)),
        sender_(offload) {}

  Status open_receive(const Interface& interface, const SocketAddress& group);
  Status open_send(const Interface& interface, const SocketAddress& group);
  void write_header(wire::PacketKind kind, std::uint32_t epoch, std::uint32_t psn,
                    std::span<const std::byte> payload);
  bool accept(std::span<const std::byte> datagram, ReceivedChunk& chunk);
  void on_probe(Rank source);

  /// What is counted on the receive side.
  struct ReceiveCounts {
    Tally datagrams;
    Tally bytes;
    Tally rejected_foreign;
    Tally rejected_integrity;
    Tally calls;
  };

  GroupSettings settings_;
  std::uint32_t subgroup_;
  wire::Integrity integrity_;
  Descriptor receive_;
  Descriptor send_;
  DatagramBatch batch_{kReceiveSlots};
  DatagramSender sender_;
  std::mutex probes_mutex_;
  std::atomic<bool> has_probes_{false};  ///< they are rare: spares looking into `probes_`
  std::vector<ProbeArrival> probes_;
  std::uint64_t receive_buffer_bytes_ = 0;
  bool looped_back_ = false;   ///< the kernel delivers our own datagrams to our own filter
  EndpointCounters counters_;  ///< of the send side
  ReceiveCounts received_;

  // Four 64 KiB slots stay in a 512 KiB second-level cache together with the destination.
  static constexpr std::size_t kReceiveSlots = 4;
};

}  // namespace tutti::device::ip
