#include "crypto/hash.hpp"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/sha.h>

#include <memory>
#include <vector>

#include "base/error.hpp"

namespace tutti::crypto {

namespace {

// libcrypto takes parameters by pointers to non-const but does not write through them.
OSSL_PARAM octets(const char* name, std::span<const std::byte> bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<std::byte*>(bytes.data()),
                                           bytes.size());
}

Status unavailable(const char* what) {
  return failure(Code::internal, "OpenSSL offers no {} on this host: enable its default provider",
                 what);
}

}  // namespace

Result<Digest> sha256(std::span<const std::byte> bytes) {
  Digest digest;
  if (SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
             reinterpret_cast<unsigned char*>(digest.data())) == nullptr) {
    return unavailable("SHA-256");
  }
  return digest;
}

Status hkdf(const HkdfInput& input, std::span<std::byte> out) {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(
      EVP_KDF_fetch(nullptr, "HKDF", nullptr), EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
      kdf ? EVP_KDF_CTX_new(kdf.get()) : nullptr, EVP_KDF_CTX_free);
  if (!context) return unavailable("HKDF");
  char digest[] = "SHA256";
  std::vector<OSSL_PARAM> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      octets(OSSL_KDF_PARAM_KEY, input.key)};
  if (!input.salt.empty()) parameters.push_back(octets(OSSL_KDF_PARAM_SALT, input.salt));
  if (!input.info.empty()) parameters.push_back(octets(OSSL_KDF_PARAM_INFO, input.info));
  parameters.push_back(OSSL_PARAM_construct_end());
  if (EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(out.data()), out.size(),
                     parameters.data()) != 1) {
    return unavailable("HKDF");
  }
  return {};
}

Status derive(std::span<const std::byte> key, std::string_view label, std::uint64_t context,
              std::span<std::byte> out) {
  const auto text = std::as_bytes(std::span(label));
  std::vector<std::byte> info(text.begin(), text.end());
  for (int shift = 0; shift < 64; shift += 8) {
    info.push_back(static_cast<std::byte>((context >> shift) & 0xff));
  }
  return hkdf({.key = key, .info = info}, out);
}

Result<Secret> derive(const Secret& key, std::string_view label, std::uint64_t context) {
  Secret derived;
  if (Status status = derive(key.bytes(), label, context, derived.writable()); !status)
    return status;
  return derived;
}

}  // namespace tutti::crypto
