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

/// A key pair; libcrypto wipes its private key at the end.
class KeyPair {
 public:
  static Result<KeyPair> random();
  static Result<KeyPair> of(const Secret& private_key);

  const PublicKey& public_key() const { return public_key_; }
  /// The secret that this pair shares with the owner of `other`. Its bytes are not uniform: use
  /// them as the key of `hkdf`. Fails for a public key that gives every pair the same secret.
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
