#include "runtime/bootstrap/store/stream.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error.hpp"

namespace tutti::runtime {

namespace {

/// At most this many bytes are encrypted at a time, to limit the TLS records that wait for the
/// socket.
constexpr std::size_t kMaxEncryptedBytes = 65536;
constexpr std::size_t kReceiveBytes = 16384;

Status lost(int error) {
  return failure(Code::peer_failed, "{}", std::generic_category().message(error));
}

/// Sends as many bytes as the socket takes now, possibly none.
Result<std::size_t> send_raw(const Socket& socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EAGAIN) break;
    if (errno != EINTR) return lost(errno);
  }
  return std::size_t{0};
}

}  // namespace

Result<Stream> Stream::open(Socket socket, Role role, const crypto::Secret* door_key) {
  Stream made(std::move(socket));
  if (door_key == nullptr) return made;
  auto session = crypto::TlsSession::begin(role, *door_key);
  if (!session) return session.status();
  made.encrypted_ = session->take_output();
  made.tls_.emplace(std::move(*session));
  return made;
}

void Stream::speak_plainly() {
  tls_.reset();
  encrypted_.clear();
  sent_bytes_ = written_bytes_ = 0;
}

Status Stream::flush() {
  while (owes_bytes()) {
    const auto sent = send_raw(socket_, std::span(encrypted_).subspan(sent_bytes_));
    if (!sent) return sent.status();
    if (*sent == 0) return {};
    sent_bytes_ += *sent;
    if (sent_bytes_ < encrypted_.size()) continue;
    encrypted_.clear();
    sent_bytes_ = 0;
  }
  return {};
}

Result<std::size_t> Stream::send_some(std::span<const std::byte> bytes) {
  if (!tls_) return send_raw(socket_, bytes);
  if (Status status = flush(); !status) return status;
  if (owes_bytes() || tls_->state() == crypto::TlsSession::State::handshaking)
    return std::size_t{0};
  if (tls_->state() == crypto::TlsSession::State::closed)
    return failure(Code::peer_failed, "the peer closed the connection");
  if (written_bytes_ == 0) {
    const auto part = bytes.first(std::min(bytes.size(), kMaxEncryptedBytes));
    if (Status status = tls_->write(part); !status) return status;
    written_bytes_ = part.size();
  }
  encrypted_ = tls_->take_output();
  if (Status status = flush(); !status) return status;
  return std::exchange(written_bytes_, 0);
}

Result<std::optional<std::size_t>> Stream::receive_raw(std::span<std::byte> into) {
  while (true) {
    const ssize_t got = recv(socket_.fd(), into.data(), into.size(), 0);
    if (got > 0 && !first_byte_) first_byte_ = into.front();
    if (got >= 0) return std::optional(static_cast<std::size_t>(got));
    if (errno == EAGAIN) return std::optional<std::size_t>();
    if (errno != EINTR) return lost(errno);
  }
}

/// Receives bytes from the socket and hands them to TLS; returns the result of receive_raw.
Result<std::optional<std::size_t>> Stream::receive_encrypted() {
  std::array<std::byte, kReceiveBytes> bytes;
  const auto got = receive_raw(bytes);
  if (!got || got->value_or(0) == 0) return got;
  const Status fed = tls_->feed(std::span(bytes).first(**got));
  // TLS has produced output even if it rejected the bytes: an alert for the peer.
  const Bytes answer = tls_->take_output();
  encrypted_.insert(encrypted_.end(), answer.begin(), answer.end());
  // An error of flush() is ignored, because the next receive fails, too, and its error is more
  // precise, such as the peer's TLS alert.
  [[maybe_unused]] const Status sent = flush();
  if (!fed.ok()) return fed;
  return got;
}

Result<std::optional<std::size_t>> Stream::receive_some(std::span<std::byte> into) {
  if (!tls_) return receive_raw(into);
  while (true) {
    const auto plain = tls_->read(into);
    if (!plain) return plain.status();
    const bool closed = tls_->state() == crypto::TlsSession::State::closed;
    if (*plain > 0 || closed) return std::optional(*plain);
    const auto got = receive_encrypted();
    if (!got || got->value_or(0) == 0) return got;
  }
}

Status Stream::wait(short events, Deadline deadline) const {
  if (wait_for(socket_, events, deadline)) return {};
  return failure(Code::timeout, "the peer did not answer in time");
}

Status Stream::send_all(std::span<const std::byte> bytes, Deadline deadline) {
  while (true) {
    const auto sent = send_some(bytes);
    if (!sent) return sent.status();
    bytes = bytes.subspan(*sent);
    if (bytes.empty() && !owes_bytes()) return {};
    if (*sent > 0 && !owes_bytes()) continue;
    const bool shakes_hands =
        tls_ && tls_->state() == crypto::TlsSession::State::handshaking && !owes_bytes();
    if (Status status = wait(shakes_hands ? POLLIN : POLLOUT, deadline); !status) return status;
    if (!shakes_hands) continue;
    const auto got = receive_encrypted();
    if (!got) return got.status();
    if (*got && **got == 0) return failure(Code::peer_failed, "the peer closed the connection");
  }
}

Result<std::size_t> Stream::receive_some(std::span<std::byte> into, Deadline deadline) {
  while (true) {
    const auto got = receive_some(into);
    if (!got) return got.status();
    if (*got) return **got;
    const short events = static_cast<short>(owes_bytes() ? POLLIN | POLLOUT : POLLIN);
    if (Status status = wait(events, deadline); !status) return status;
    [[maybe_unused]] const Status sent = flush();
  }
}

}  // namespace tutti::runtime
