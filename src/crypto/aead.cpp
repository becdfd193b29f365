#include "crypto/aead.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <climits>
#include <memory>

#include "base/error.hpp"

namespace tutti::crypto {

namespace {

using Context = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

const unsigned char* input(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

unsigned char* output(std::span<std::byte> bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

/// Authenticates the associated bytes, then encrypts or decrypts `from` into `to`, which has the
/// same size.
bool transform(EVP_CIPHER_CTX* context, std::span<const std::byte> associated,
               std::span<const std::byte> from, std::span<std::byte> to) {
  int written = 0;
  if (from.size() > INT_MAX || associated.size() > INT_MAX) return false;
  if (!associated.empty() && EVP_CipherUpdate(context, nullptr, &written, input(associated),
                                              static_cast<int>(associated.size())) != 1) {
    return false;
  }
  return from.empty() || EVP_CipherUpdate(context, output(to), &written, input(from),
                                          static_cast<int>(from.size())) == 1;
}

bool begin(EVP_CIPHER_CTX* context, const Secret& key, const Nonce& nonce, bool encrypts) {
  return context != nullptr && EVP_CipherInit_ex(context, EVP_aes_256_gcm(), nullptr,
                                                 input(key.bytes()), input(nonce), encrypts) == 1;
}

}  // namespace

Result<std::vector<std::byte>> seal(const Secret& key, std::span<const std::byte> plain,
                                    const Sealing& how) {
  const Context context(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  std::vector<std::byte> sealed(plain.size() + kSealTagBytes);
  const auto text = std::span(sealed).first(plain.size());
  std::array<std::byte, kSealTagBytes> rest;
  int written = 0;
  if (!begin(context.get(), key, how.nonce, true) ||
      !transform(context.get(), how.associated, plain, text) ||
      EVP_CipherFinal_ex(context.get(), output(rest), &written) != 1 ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kSealTagBytes,
                          sealed.data() + plain.size()) != 1) {
    return failure(Code::unsupported,
                   "OpenSSL offers no AES-256-GCM on this host: enable its default provider");
  }
  return sealed;
}

Status unseal(const Secret& key, std::span<const std::byte> sealed, std::span<std::byte> plain,
              const Sealing& how) {
  const Context context(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  std::array<std::byte, kSealTagBytes> rest;
  int written = 0;
  bool genuine =
      sealed.size() == plain.size() + kSealTagBytes && begin(context.get(), key, how.nonce, false);
  if (genuine) {
    std::array<std::byte, kSealTagBytes> tag;
    std::copy(sealed.end() - kSealTagBytes, sealed.end(), tag.begin());
    genuine =
        transform(context.get(), how.associated, sealed.first(plain.size()), plain) &&
        EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kSealTagBytes, tag.data()) == 1 &&
        EVP_CipherFinal_ex(context.get(), output(rest), &written) == 1;
  }
  if (genuine) return {};
  wipe(plain);
  return failure(
      Code::invalid_argument,
      "the sealed message was changed on the way, or was sealed under another key: use the same "
      "key at both ends, or check the network path between them");
}

}  // namespace tutti::crypto
