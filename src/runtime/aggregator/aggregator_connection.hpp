// Both ends of the TCP connection over which a job asks an aggregator to join.
#pragma once

#include <optional>
#include <string>

#include "runtime/aggregator/aggregator_frame.hpp"
#include "runtime/bootstrap/store/socket.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// A job's connection to an aggregator.
class AggregatorConnection {
 public:
  /// Connects to an aggregator and receives its challenge. An error names the address and the
  /// remedy.
  static Result<AggregatorConnection> open(const std::string& address, Deadline deadline);

  /// The address of this host as the aggregator sees it; empty if it is a loopback address.
  std::string local_host() const;
  /// Sends the request and returns the window that the aggregator offers. If the aggregator
  /// refuses, returns the Status that it sent.
  Result<engine::WindowConfig> ask(const ServiceKey& key, const JoinRequest& request,
                                   Deadline deadline);
  /// Tells the aggregator that the job begins; without this message the aggregator drops the job.
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

  /// Sends the challenge and receives the request. A client with a different key is told so.
  Result<JoinRequest> receive(const ServiceKey& key, Deadline deadline);
  /// Answers the request that `receive` returned.
  Status reply(const ServiceKey& key, const JoinReply& reply, Deadline deadline);
  /// Waits until the job begins; fails if it does not.
  Status wait_for_go(Deadline deadline);

 private:
  Socket socket_;
  ControlNonce challenge_{};
  ControlNonce nonce_{};
};

}  // namespace tutti::runtime
