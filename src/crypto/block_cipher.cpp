#include "crypto/block_cipher.hpp"

#include <openssl/evp.h>

#include "base/error.hpp"
#include "crypto/secret.hpp"

namespace tutti::crypto {

namespace {

BlockCipher::Block encrypt_by(EVP_CIPHER_CTX* context, const BlockCipher::Block& block) {
  BlockCipher::Block out{};
  int written = 0;
  if (EVP_EncryptUpdate(context, reinterpret_cast<unsigned char*>(out.data()), &written,
                        reinterpret_cast<const unsigned char*>(block.data()),
                        static_cast<int>(block.size())) != 1) {
    (void)fill_random(out);
  }
  return out;
}

}  // namespace

BlockCipher::~BlockCipher() {
  for (auto& context : contexts_) EVP_CIPHER_CTX_free(context.load(std::memory_order_relaxed));
}

Result<std::unique_ptr<BlockCipher>> BlockCipher::aes128(std::span<const std::byte, kBytes> key) {
  auto cipher = std::make_unique<BlockCipher>();
  for (auto& slot : cipher->contexts_) {
    EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
    slot.store(context, std::memory_order_relaxed);
    if (context == nullptr ||
        EVP_EncryptInit_ex(context, EVP_aes_128_ecb(), nullptr,
                           reinterpret_cast<const unsigned char*>(key.data()), nullptr) != 1 ||
        EVP_CIPHER_CTX_set_padding(context, 0) != 1) {
      return failure(Code::unsupported,
                     "OpenSSL offers no AES-128 on this host: enable its default provider");
    }
  }
  return cipher;
}

BlockCipher::Block BlockCipher::encrypt(const Block& block) const {
  for (std::size_t slot = 0;; slot = (slot + 1) % kSlots) {
    EVP_CIPHER_CTX* const context = contexts_[slot].exchange(nullptr, std::memory_order_acquire);
    if (context == nullptr) continue;
    const Block encrypted = encrypt_by(context, block);
    contexts_[slot].store(context, std::memory_order_release);
    return encrypted;
  }
}

}  // namespace tutti::crypto
