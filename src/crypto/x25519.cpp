#include "crypto/x25519.hpp"

#include <openssl/evp.h>

#include <utility>

#include "base/error.hpp"

namespace tutti::crypto {

namespace {

Status unavailable() {
  return failure(Code::unsupported,
                 "OpenSSL offers no X25519 on this host: enable its default provider");
}

}  // namespace

void KeyPair::Free::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }

Result<KeyPair> KeyPair::random() {
  const auto private_key = Secret::random();
  if (!private_key) return private_key.status();
  return of(*private_key);
}

Result<KeyPair> KeyPair::of(const Secret& private_key) {
  Key key(EVP_PKEY_new_raw_private_key(
      EVP_PKEY_X25519, nullptr, reinterpret_cast<const unsigned char*>(private_key.bytes().data()),
      Secret::kBytes));
  PublicKey public_key;
  std::size_t size = public_key.size();
  if (!key ||
      EVP_PKEY_get_raw_public_key(key.get(), reinterpret_cast<unsigned char*>(public_key.data()),
                                  &size) != 1 ||
      size != public_key.size()) {
    return unavailable();
  }
  return KeyPair(std::move(key), public_key);
}

Result<Secret> KeyPair::shared_with(const PublicKey& other) const {
  const Key peer(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr,
                                             reinterpret_cast<const unsigned char*>(other.data()),
                                             other.size()));
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(
      EVP_PKEY_CTX_new(key_.get(), nullptr), EVP_PKEY_CTX_free);
  if (!peer || !context || EVP_PKEY_derive_init(context.get()) != 1) return unavailable();
  Secret shared;
  std::size_t size = Secret::kBytes;
  // The derivation fails if the shared secret would be zero.
  if (EVP_PKEY_derive_set_peer(context.get(), peer.get()) != 1 ||
      EVP_PKEY_derive(context.get(), reinterpret_cast<unsigned char*>(shared.writable().data()),
                      &size) != 1 ||
      size != Secret::kBytes) {
    return failure(Code::invalid_argument,
                   "the public key is of low order, so it was not drawn at random: use one "
                   "version of Tutti on all ranks");
  }
  return shared;
}

}  // namespace tutti::crypto
