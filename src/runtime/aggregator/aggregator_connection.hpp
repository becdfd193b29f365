// The TCP connection over which a job asks an aggregator to join: both ends of one exchange.
#pragma once

#include <optional>
#include <string>

#include "runtime/aggregator/aggregator_frame.hpp"
#include "runtime/bootstrap/store/socket.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// A connection to an aggregator, before the request.
class AggregatorConnection {
 public:
  /// Connects and takes the challenge. Failures name the address and the remedy.
  static Result<AggregatorConnection> open(const std::string& address, Deadline deadline);

  /// The address of this host as the aggregator sees it; empty for the loopback.
  std::string local_host() const;
  /// Sends the request; returns the terms. A refusal is the aggregator's own Status.
  Result<engine::WindowConfig> ask(const ServiceKey& key, const JoinRequest& request,
                                   Deadline deadline);
  /// Says that the job begins; without it the aggregator does not wait for the job.
  Status go(Deadline deadline);

 private:
  AggregatorConnection(std::string address, Socket socket, const ControlNonce& challenge)
      : address_(std::move(address)), socket_(std::move(socket)), challenge_(challenge) {}

  std::string address_;
  Socket socket_;
  ControlNonce challenge_;
};

/// The aggregator's end of one connection.
class AggregatorVisitor {
 public:
  explicit AggregatorVisitor(Socket socket) : socket_(std::move(socket)) {}

  /// Sends the challenge and receives the request. A client with another key is told so.
  Result<JoinRequest> receive(const ServiceKey& key, Deadline deadline);
  /// Answers a request that was received.
  Status reply(const ServiceKey& key, const JoinReply& reply, Deadline deadline);
  /// Ok once the job begins; a failure if it does not.
  Status wait_for_go(Deadline deadline);

 private:
  Socket socket_;
  ControlNonce challenge_{};
  ControlNonce nonce_{};
};

}  // namespace tutti::runtime
