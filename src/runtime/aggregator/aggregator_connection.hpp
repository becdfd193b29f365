// Both ends of the TCP connection over which a job asks an aggregator to join it.
#pragma once

#include <string>

#include "runtime/aggregator/aggregator_frame.hpp"
#include "runtime/bootstrap/store/stream.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// The TLS key of the connections between jobs and an aggregator.
Result<crypto::Secret> door_key_of(const ServiceKey& key);

/// A job's connection to an aggregator.
class AggregatorConnection {
 public:
  /// Connects to an aggregator. An error names the address and the remedy.
  static Result<AggregatorConnection> open(const std::string& address, const ServiceKey& key,
                                           Deadline deadline);

  /// The local address of the connection, at which the aggregator reaches this host; empty if it is
  /// a loopback address.
  std::string local_host() const;
  /// Sends the request and returns the window that the aggregator offers. If the aggregator
  /// refuses, returns the Status that it sent.
  Result<engine::WindowConfig> ask(const JoinRequest& request, Deadline deadline);
  /// Tells the aggregator that the job begins; without this message the aggregator drops the job.
  Status go(Deadline deadline);

 private:
  AggregatorConnection(std::string address, Stream stream)
      : address_(std::move(address)), stream_(std::move(stream)) {}

  std::string address_;
  Stream stream_;
};

/// The aggregator's end of one connection.
class AggregatorVisitor {
 public:
  explicit AggregatorVisitor(Stream stream) : stream_(std::move(stream)) {}

  Result<JoinRequest> receive(Deadline deadline);
  /// Answers the request that `receive` returned.
  Status reply(const JoinReply& reply, Deadline deadline);
  /// Waits for the message that the job begins; fails if the message has not arrived by the
  /// deadline.
  Status wait_for_go(Deadline deadline);

 private:
  Stream stream_;
};

}  // namespace tutti::runtime
