// One socket's access to an interface: its claim to egress priority, the bytes that it may send
// now, and its traffic class.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "device/ip/egress_priority.hpp"
#include "device/ip/socket.hpp"
#include "device/ip/socket_class.hpp"
#include "device/rc/channel_set.hpp"
#include "tutti/priority.hpp"
#include "tutti/status.hpp"

namespace tutti::device::ip {

/// A gate is used by one thread at a time.
class EgressGate {
 public:
  /// `egress` may be null: the socket then claims nothing and is not limited.
  EgressGate(std::shared_ptr<EgressPriority> egress, bool multicast)
      : egress_(egress), claim_(std::move(egress)), multicast_(multicast) {}

  /// Sets the socket of this gate, and the traffic class that the socket uses for each priority.
  Status open(int fd, int family, const TrafficClasses& classes) {
    fd_ = fd;
    return class_.open(fd, family, classes);
  }
  /// Gives the traffic class of `priority` to all datagrams that are sent from now on.
  void use(Priority priority) { class_.use(priority); }
  /// Number of bytes that may be sent now; an empty value sets no limit.
  std::optional<std::uint64_t> allowed_bytes(Priority priority) const {
    return egress_ ? egress_->allowance({priority, multicast_}, fd_) : std::nullopt;
  }
  void claim(Priority priority) { claim_.claim({priority, multicast_}); }
  void withdraw() { claim_.withdraw(); }

 protected:
  EgressPriority& egress() { return *egress_; }
  int fd() const { return fd_; }

 private:
  std::shared_ptr<EgressPriority> egress_;
  EgressClaim claim_;
  SocketClass class_;
  bool multicast_;
  int fd_ = -1;
};

/// The gate of the reliable connections of one endpoint.
class ConnectionGate final : public EgressGate, public rc::FrameGate {
 public:
  explicit ConnectionGate(std::shared_ptr<EgressPriority> egress)
      : EgressGate(std::move(egress), false) {}

  std::optional<rc::Allowance> allowance(const rc::Backlog& backlog, Instant now) override;
  /// Claims egress priority for the frames that the last poll could not send. If the send queue has
  /// room and only the send window is full, the claim ends once the interface has sent all bytes of
  /// this socket. The frames then wait for ACKs, and other senders need not hold back for them.
  void claim_for(const rc::ChannelSet& channels) {
    const auto waiting = channels.waiting();
    const bool claims = waiting && priorities().any_below(*waiting) &&
                        (channels.send_queue_full() || unsent_bytes(fd()) > 0);
    claims ? claim(*waiting) : withdraw();
  }
  PrioritiesInUse& priorities() { return egress().priorities(); }

 private:
  /// Instant at which held-back connections were last allowed one frame each.
  Instant last_trickle_{};
};

}  // namespace tutti::device::ip
