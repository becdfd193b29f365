#include "crypto/secret.hpp"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <climits>

#include "base/error.hpp"

namespace tutti::crypto {

void wipe(std::span<std::byte> bytes) { OPENSSL_cleanse(bytes.data(), bytes.size()); }

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Status fill_random(std::span<std::byte> bytes) {
  if (bytes.size() <= INT_MAX && RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                                            static_cast<int>(bytes.size())) == 1) {
    return {};
  }
  return failure(Code::system,
                 "the operating system gives no random bytes: check that getrandom works");
}

Secret::Secret(std::span<const std::byte, kBytes> bytes) {
  std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}

Secret::Secret(Secret&& other) noexcept : bytes_(other.bytes_) { wipe(other.bytes_); }

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this == &other) return *this;
  bytes_ = other.bytes_;
  wipe(other.bytes_);
  return *this;
}

Secret::~Secret() { wipe(bytes_); }

Result<Secret> Secret::random() {
  Secret made;
  if (Status status = fill_random(made.bytes_); !status) return status;
  return made;
}

}  // namespace tutti::crypto
