#include "runtime/aggregator/aggregator_connection.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace tutti::runtime {

namespace {

Status receive_exactly(const Socket& socket, std::span<std::byte> into, Deadline deadline) {
  while (!into.empty()) {
    const auto got = receive_some(socket, into, deadline);
    if (!got) return got.status();
    if (*got == 0) return failure(Code::peer_failed, "the peer closed the connection");
    into = into.subspan(*got);
  }
  return {};
}

Result<ControlFrame> receive_frame(const Socket& socket, Deadline deadline) {
  std::array<std::byte, kControlHeaderBytes> bytes;
  if (Status status = receive_exactly(socket, bytes, deadline); !status) return status;
  const auto header = decode_control_header(bytes);
  if (!header) {
    return failure(Code::invalid_argument,
                   "the process at this address is not an aggregator of this version");
  }
  ControlFrame frame{header->kind, Bytes(header->payload_bytes)};
  if (Status status = receive_exactly(socket, frame.payload, deadline); !status) return status;
  return frame;
}

Status send_frame(const Socket& socket, ControlKind kind, std::span<const std::byte> payload,
                  Deadline deadline) {
  return send_all(socket, encode_control(kind, payload), deadline);
}

std::optional<ControlNonce> nonce_in(std::span<const std::byte> bytes) {
  if (bytes.size() < kControlNonceBytes) return std::nullopt;
  ControlNonce nonce;
  std::copy_n(bytes.begin(), nonce.size(), nonce.begin());
  return nonce;
}

Status unreachable(const std::string& address, const Status& why) {
  return failure(why.code() == Code::timeout ? Code::timeout : Code::peer_failed,
                 "aggregator {} cannot be reached: {}: start it there with `tutti aggregator "
                 "--listen`, or correct the list of aggregators (TUTTI_AGGREGATORS)",
                 address, why.message());
}

}  // namespace

Result<AggregatorConnection> AggregatorConnection::open(const std::string& address,
                                                        Deadline deadline) {
  const auto endpoint = parse_endpoint(address);
  if (!endpoint) {
    return failure(Code::invalid_argument, "aggregator '{}': {}", address,
                   endpoint.status().message());
  }
  auto socket = connect_once(*endpoint, deadline);
  if (!socket) return unreachable(address, socket.status());
  const auto frame = receive_frame(*socket, deadline);
  if (!frame) return unreachable(address, frame.status());
  const auto challenge = nonce_in(frame->payload);
  if (frame->kind != ControlKind::challenge || !challenge) {
    return unreachable(address, failure(Code::invalid_argument,
                                        "the process at this address sent an unexpected message"));
  }
  return AggregatorConnection(address, std::move(*socket), *challenge);
}

std::string AggregatorConnection::local_host() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::getsockname(socket_.fd(), generic, &length) != 0) return {};
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(generic, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  const std::string text = host.data();
  return text.starts_with("127.") || text == "::1" ? std::string() : text;
}

Result<engine::WindowConfig> AggregatorConnection::ask(const ServiceKey& key,
                                                       const JoinRequest& request,
                                                       Deadline deadline) {
  const auto nonce = fresh_nonce();
  if (!nonce) return nonce.status();
  auto sealed = seal(key, ControlDirection::to_aggregator, challenge_, *nonce, encode(request));
  if (!sealed) return sealed.status();
  Bytes payload(nonce->begin(), nonce->end());
  payload.insert(payload.end(), sealed->begin(), sealed->end());
  if (payload.size() > kMaxControlPayloadBytes) {
    return failure(Code::invalid_argument,
                   "aggregator {}: the address is too long: use a shorter name", address_);
  }
  Status sent = send_frame(socket_, ControlKind::request, payload, deadline);
  if (!sent.ok()) return unreachable(address_, sent);
  const auto frame = receive_frame(socket_, deadline);
  if (!frame) return unreachable(address_, frame.status());
  if (frame->kind == ControlKind::stranger) {
    return failure(
        Code::invalid_argument,
        "aggregator {} has a different key: name the same key file at the aggregator and "
        "at every rank (TUTTI_AGGREGATOR_KEY_FILE)",
        address_);
  }
  const auto plain = frame->kind == ControlKind::reply
                         ? unseal(key, ControlDirection::to_job, challenge_, *nonce, frame->payload)
                         : std::nullopt;
  if (!plain) {
    return failure(Code::invalid_argument,
                   "aggregator {} answered with a different key: name the same key file at the "
                   "aggregator and at every rank",
                   address_);
  }
  const auto reply = decode_join_reply(*plain);
  if (!reply)
    return failure(Code::invalid_argument, "aggregator {}: {}", address_, reply.status().message());
  if (!reply->status.ok()) {
    return failure(reply->status.code(), "aggregator {}: {}", address_, reply->status.message());
  }
  return reply->terms;
}

Status AggregatorConnection::go(Deadline deadline) {
  Status sent = send_frame(socket_, ControlKind::go, {}, deadline);
  return sent.ok() ? sent : unreachable(address_, sent);
}

Result<JoinRequest> AggregatorVisitor::receive(const ServiceKey& key, Deadline deadline) {
  const auto challenge = fresh_nonce();
  if (!challenge) return challenge.status();
  challenge_ = *challenge;
  Status sent = send_frame(socket_, ControlKind::challenge, challenge_, deadline);
  if (!sent.ok()) return sent;
  const auto frame = receive_frame(socket_, deadline);
  if (!frame) return frame.status();
  const auto nonce = nonce_in(frame->payload);
  if (frame->kind != ControlKind::request || !nonce) {
    return failure(Code::invalid_argument,
                   "the client has another version of the protocol: use one version of Tutti");
  }
  nonce_ = *nonce;
  const auto plain = unseal(key, ControlDirection::to_aggregator, challenge_, nonce_,
                            std::span(frame->payload).subspan(kControlNonceBytes));
  if (!plain) {
    (void)send_frame(socket_, ControlKind::stranger, {}, deadline);
    return failure(Code::invalid_argument,
                   "the client has a different key: give it the key file of this aggregator");
  }
  return decode_join_request(*plain);
}

Status AggregatorVisitor::reply(const ServiceKey& key, const JoinReply& reply, Deadline deadline) {
  auto sealed = seal(key, ControlDirection::to_job, challenge_, nonce_, encode(reply));
  if (!sealed) return sealed.status();
  return send_frame(socket_, ControlKind::reply, *sealed, deadline);
}

Status AggregatorVisitor::wait_for_go(Deadline deadline) {
  const auto frame = receive_frame(socket_, deadline);
  if (frame && frame->kind == ControlKind::go) return {};
  return failure(Code::peer_failed,
                 "the job did not begin, probably because another aggregator could not join it");
}

}  // namespace tutti::runtime
