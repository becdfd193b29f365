#include "runtime/aggregator/aggregator_connection.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <array>

#include "base/error.hpp"
#include "crypto/hash.hpp"

namespace tutti::runtime {

namespace {

Status receive_exactly(Stream& stream, std::span<std::byte> into, Deadline deadline) {
  while (!into.empty()) {
    const auto got = stream.receive_some(into, deadline);
    if (!got) return got.status();
    if (*got == 0) return failure(Code::peer_failed, "the peer closed the connection");
    into = into.subspan(*got);
  }
  return {};
}

Result<ControlFrame> receive_frame(Stream& stream, Deadline deadline) {
  std::array<std::byte, kControlHeaderBytes> bytes;
  if (Status status = receive_exactly(stream, bytes, deadline); !status) return status;
  const auto header = decode_control_header(bytes);
  if (!header) {
    return failure(Code::unsupported,
                   "the peer does not speak this version of the aggregator protocol: use the same "
                   "build of Tutti at the aggregator and on all ranks");
  }
  ControlFrame frame{header->kind, Bytes(header->payload_bytes)};
  if (Status status = receive_exactly(stream, frame.payload, deadline); !status) return status;
  return frame;
}

Status unusable(const std::string& address, const Status& why) {
  return failure(why.code(), "cannot use aggregator {}: {}", address, why.message());
}

Status unreachable(const std::string& address, const Status& why) {
  return failure(
      why.code() == Code::timeout ? Code::timeout : Code::peer_failed,
      "aggregator {} does not serve this job ({}): start an aggregator there with `tutti "
      "aggregator --listen`, or correct the list of aggregators (TUTTI_AGGREGATORS)",
      address, why.message());
}

/// The error of a connection that failed after it was opened. The code `invalid_argument` comes
/// only from TLS and means that the two ends have different keys.
Status not_served(const std::string& address, const Status& why) {
  if (why.code() == Code::unsupported) return unusable(address, why);
  if (why.code() != Code::invalid_argument) return unreachable(address, why);
  return failure(Code::invalid_argument,
                 "aggregator {} has a different key: name the same key file at the aggregator "
                 "and at every rank (TUTTI_AGGREGATOR_KEY_FILE)",
                 address);
}

}  // namespace

Result<crypto::Secret> door_key_of(const ServiceKey& key) {
  crypto::Secret derived;
  if (Status status = crypto::derive(key, kAggregatorDoor, 0, derived.writable()); !status)
    return status;
  return derived;
}

Result<AggregatorConnection> AggregatorConnection::open(const std::string& address,
                                                        const ServiceKey& key, Deadline deadline) {
  const auto endpoint = parse_endpoint(address);
  if (!endpoint) return unusable(address, endpoint.status());
  const auto door_key = door_key_of(key);
  if (!door_key) return door_key.status();
  auto socket = connect_once(*endpoint, deadline);
  if (!socket) return unreachable(address, socket.status());
  auto stream = Stream::open(std::move(*socket), Stream::Role::client, &*door_key);
  if (!stream) return stream.status();
  return AggregatorConnection(address, std::move(*stream));
}

std::string AggregatorConnection::local_host() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(stream_.socket().fd(), generic, &length) != 0) return {};
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(generic, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  const std::string text = host.data();
  return text.starts_with("127.") || text == "::1" ? std::string() : text;
}

Result<engine::WindowConfig> AggregatorConnection::ask(const JoinRequest& request,
                                                       Deadline deadline) {
  const Bytes payload = encode(request);
  if (payload.size() > kMaxControlPayloadBytes) {
    return failure(
        Code::invalid_argument,
        "the address {} of an aggregator is too long for a join request: use a shorter name",
        address_);
  }
  const Status sent = stream_.send_all(encode_control(ControlKind::request, payload), deadline);
  if (!sent.ok()) return not_served(address_, sent);
  const auto frame = receive_frame(stream_, deadline);
  if (!frame) return not_served(address_, frame.status());
  const auto reply = frame->kind == ControlKind::reply
                         ? decode_join_reply(frame->payload)
                         : failure(Code::invalid_argument,
                                   "the answer is not a join reply: use the same build of Tutti at "
                                   "the aggregator and on all ranks");
  if (!reply) return unusable(address_, reply.status());
  if (!reply->status.ok()) return unusable(address_, reply->status);
  return reply->terms;
}

Status AggregatorConnection::go(Deadline deadline) {
  const Status sent = stream_.send_all(encode_control(ControlKind::go, {}), deadline);
  return sent.ok() ? sent : not_served(address_, sent);
}

Result<JoinRequest> AggregatorVisitor::receive(Deadline deadline) {
  const auto frame = receive_frame(stream_, deadline);
  if (!frame) return frame.status();
  if (frame->kind == ControlKind::request) return decode_join_request(frame->payload);
  return failure(Code::invalid_argument,
                 "the first message is not a join request: use the same build of Tutti at the "
                 "aggregator and on all ranks");
}

Status AggregatorVisitor::reply(const JoinReply& reply, Deadline deadline) {
  return stream_.send_all(encode_control(ControlKind::reply, encode(reply)), deadline);
}

Status AggregatorVisitor::wait_for_go(Deadline deadline) {
  const auto frame = receive_frame(stream_, deadline);
  if (frame && frame->kind == ControlKind::go) return {};
  return failure(Code::peer_failed,
                 "the job did not begin, probably because another aggregator could not join it: "
                 "see the error of rank 0");
}

}  // namespace tutti::runtime
