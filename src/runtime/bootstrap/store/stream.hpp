// A stream of bytes over a TCP connection, encrypted by TLS if both ends have a key.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "crypto/secret.hpp"
#include "crypto/tls.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/bootstrap/store/socket.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Labels for the derivation of TLS keys. A door is a TCP port at which Tutti listens; stores and
/// aggregators have different keys, so that bytes recorded at one cannot be replayed at the other.
inline constexpr std::string_view kStoreDoor = "tutti store door 1";
inline constexpr std::string_view kAggregatorDoor = "tutti aggregator door 1";

/// One end of a connection. The socket is nonblocking; only the functions with a deadline wait. A
/// function that uses TLS may return the errors of crypto::TlsSession. One thread at a time may use
/// a stream.
class Stream {
 public:
  using Role = crypto::TlsSession::Role;

  Stream() = default;
  /// A stream without TLS.
  explicit Stream(Socket socket) : socket_(std::move(socket)) {}
  /// A stream with TLS under `door_key`, or without TLS if `door_key` is null. Nothing is sent yet.
  static Result<Stream> open(Socket socket, Role role, const crypto::Secret* door_key);

  const Socket& socket() const { return socket_; }
  /// The first byte that the peer sent. It shows whether the peer speaks TLS.
  std::optional<std::byte> first_byte() const { return first_byte_; }
  /// Ends TLS on this end: later bytes are sent unencrypted, so that a peer without TLS can read
  /// why it is refused.
  void speak_plainly();

  /// Sends as many of the bytes as the connection takes now, and returns their number.
  Result<std::size_t> send_some(std::span<const std::byte> bytes);
  /// True if encrypted bytes wait for the socket.
  bool owes_bytes() const { return !encrypted_.empty(); }
  /// Sends waiting encrypted bytes, as many as the socket takes now.
  Status flush();
  /// Receives the bytes that have arrived and returns their number: 0 at the end of the stream,
  /// nothing if no byte has arrived.
  Result<std::optional<std::size_t>> receive_some(std::span<std::byte> into);

  /// Sends all bytes. Fails with Code::timeout at the deadline, and with Code::peer_failed if the
  /// peer has closed the connection.
  Status send_all(std::span<const std::byte> bytes, Deadline deadline);
  /// Waits until bytes arrive, receives them and returns their number: 0 at the end of the stream.
  Result<std::size_t> receive_some(std::span<std::byte> into, Deadline deadline);

 private:
  Result<std::optional<std::size_t>> receive_raw(std::span<std::byte> into);
  Result<std::optional<std::size_t>> receive_encrypted();
  Status wait(short events, Deadline deadline) const;

  Socket socket_;
  std::optional<crypto::TlsSession> tls_;
  Bytes encrypted_;             ///< TLS records that wait for the socket
  std::size_t sent_bytes_ = 0;  ///< bytes of `encrypted_` that were sent
  /// Number of bytes that TLS has encrypted in a send_some() that an exception ended; otherwise 0.
  /// The next send_some() gets the same bytes again and must not encrypt them twice.
  std::size_t written_bytes_ = 0;
  std::optional<std::byte> first_byte_;
};

}  // namespace tutti::runtime
