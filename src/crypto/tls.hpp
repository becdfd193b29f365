// One end of a TLS 1.3 connection (RFC 8446) between two parties that share a key, without its
// transport: the caller carries the bytes.
//
// The key serves as external pre-shared key with an X25519 exchange, so that recorded traffic stays
// secret even if the key is lost later. There are no certificates, no tickets and no early data.
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

/// The byte with which a client and a server of TLS begin.
inline constexpr std::byte kTlsFirstByte{0x16};
/// Bytes that a session accepts before the peer has proved that it has the key.
inline constexpr std::size_t kMaxTlsHandshakeBytes = 8192;
/// Bytes of the peer that a session holds until `read` takes them.
inline constexpr std::size_t kMaxTlsUnreadBytes = 65536;

/// Errors have these codes: `invalid_argument`, the peer has another key, or none;
/// `unsupported`, the peer does not speak TLS 1.3; `peer_failed`, the bytes were changed on the
/// way; `resource_exhausted`, the caller feeds without reading. After an error the session is of no
/// use, but `take_output` may have an alert for the peer. One thread at a time may use a session.
class TlsSession {
 public:
  enum class Role : std::uint8_t { client, server };
  enum class State : std::uint8_t {
    handshaking,  ///< the peer has not proved yet that it has the key
    open,         ///< both ends have the key
    closed,       ///< the peer has ended the connection in the way of TLS
    failed,
  };

  static Result<TlsSession> begin(Role role, const Secret& key);

  State state() const { return state_; }
  /// Takes bytes that the peer sent, and continues the handshake.
  Status feed(std::span<const std::byte> bytes);
  /// Decrypts at most `into.size()` bytes and returns their number; 0 if more bytes of the peer are
  /// needed, or if the state is not `open`.
  Result<std::size_t> read(std::span<std::byte> into);
  /// Encrypts bytes for the peer; only in the state `open`. The output grows by as much, so the
  /// caller bounds what it writes before it takes the output.
  Status write(std::span<const std::byte> bytes);
  /// Moves the bytes for the peer out of the session.
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

  std::unique_ptr<Secret> key_;  ///< OpenSSL's callbacks find it at this address
  std::unique_ptr<ssl_st, Free> session_;
  State state_ = State::handshaking;
  std::vector<std::byte> beginning_;  ///< first bytes of the peer, until they can be judged
  std::size_t handshake_bytes_ = 0;
  Status failure_;
};

}  // namespace tutti::crypto
