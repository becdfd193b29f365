// X25519 (RFC 7748): two key pairs give a shared secret that an observer of both public keys does
// not learn.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "crypto/secret.hpp"
#include "tutti/status.hpp"

extern "C" {
struct evp_pkey_st;
}

namespace tutti::crypto {

using PublicKey = std::array<std::byte, 32>;

/// A key pair; libcrypto wipes the private key when the pair is destroyed.
class KeyPair {
 public:
  static Result<KeyPair> random();
  static Result<KeyPair> of(const Secret& private_key);

  const PublicKey& public_key() const { return public_key_; }
  /// The secret that this pair shares with the owner of `other`. Its bytes are not uniform, so use
  /// them only as the key of `hkdf`. Fails if `other` has low order and the secret would be zero.
  Result<Secret> shared_with(const PublicKey& other) const;

 private:
  struct Free {
    void operator()(evp_pkey_st* key) const;
  };
  using Key = std::unique_ptr<evp_pkey_st, Free>;

  KeyPair(Key key, const PublicKey& public_key) : key_(std::move(key)), public_key_(public_key) {}

  Key key_;
  PublicKey public_key_;
};

}  // namespace tutti::crypto
