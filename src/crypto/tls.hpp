// One end of a TLS 1.3 connection (RFC 8446) between two parties that share a key, without a
// transport: the caller sends and receives the encrypted bytes.
//
// The shared key is an external pre-shared key, combined with an X25519 exchange, so that recorded
// traffic stays secret even if the key leaks later. There are no certificates, no tickets and no
// early data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "crypto/secret.hpp"
#include "tutti/status.hpp"

extern "C" {
struct ssl_st;
}

namespace tutti::crypto {

/// First byte of a TLS handshake record, and therefore the first byte that a client or a server
/// sends.
inline constexpr std::byte kTlsFirstByte{0x16};
/// A session accepts at most this many bytes before the peer has proved that it has the key.
inline constexpr std::size_t kMaxTlsHandshakeBytes = 8192;
/// A session stores at most this many bytes from the peer until `read` takes them.
inline constexpr std::size_t kMaxTlsUnreadBytes = 65536;

/// One end of a TLS connection; one thread at a time may use it. The code of an error tells its
/// cause. `invalid_argument`: the peer has a different key or no key. `unsupported`: the peer does
/// not speak TLS 1.3, or OpenSSL lacks the cipher suite. `peer_failed`: the bytes were changed or
/// cut on the way. `resource_exhausted`: the caller feeds without reading, or memory is short.
/// `internal`: the caller writes before the handshake has ended or after the close. After an error
/// in the connection every call fails, but `take_output` may return an alert for the peer.
class TlsSession {
 public:
  enum class Role : std::uint8_t { client, server };
  enum class State : std::uint8_t {
    handshaking,  ///< the peer has not proved yet that it has the key
    open,         ///< both ends have the key
    closed,       ///< the peer has ended the connection by a close_notify alert
    failed,
  };

  static Result<TlsSession> begin(Role role, const Secret& key);

  State state() const { return state_; }
  /// Takes bytes that the peer sent, and continues the handshake if it has not ended.
  Status feed(std::span<const std::byte> bytes);
  /// Decrypts at most `into.size()` bytes and returns their number; 0 if more bytes from the peer
  /// are needed, or if the state is `handshaking` or `closed`.
  Result<std::size_t> read(std::span<std::byte> into);
  /// Encrypts bytes for the peer; allowed only in the state `open`. The session holds the encrypted
  /// bytes without limit, so the caller must bound how much it writes between calls of
  /// `take_output`.
  Status write(std::span<const std::byte> bytes);
  /// Returns the bytes to send to the peer, and removes them from the session.
  std::vector<std::byte> take_output();

 private:
  struct Free {
    void operator()(ssl_st* session) const;
  };

  TlsSession(std::unique_ptr<Secret> key, std::unique_ptr<ssl_st, Free> session)
      : key_(std::move(key)), session_(std::move(session)) {}

  Status shake_hands();
  Status check_beginning() const;
  Status fail(Status why);
  Status broken();

  std::unique_ptr<Secret> key_;  ///< pre-shared key, at a fixed address for OpenSSL's callbacks
  std::unique_ptr<ssl_st, Free> session_;
  State state_ = State::handshaking;
  /// First bytes received from the peer, kept until they are checked.
  std::vector<std::byte> beginning_;
  std::size_t handshake_bytes_ = 0;
  Status failure_;
};

}  // namespace tutti::crypto
