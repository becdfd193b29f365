// A library for LD_PRELOAD that writes down the keys of an unchanged program, for capture_test.py.
// It intercepts calls to libcrypto. It therefore sees each X25519 key and secret, and the inputs
// and outputs of every key derivation, including those of TLS.
//
// The variables KEY_WITNESS and KEY_WITNESS_STORE name folders. Each process appends lines "KIND
// LABEL HEX" to the file KEY_WITNESS/PID. KIND is "secret", or "public" for a public key. Before a
// process removes a file in KEY_WITNESS_STORE, the library keeps the file as a link
// KEY_WITNESS/PID.NUMBER. The functions of libcrypto that this file defines are visible to the
// program.
#pragma GCC visibility push(default)

#include <dlfcn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Octets = std::span<const unsigned char>;

/// Labels of derived bytes that are not secret, because they are derived from public bytes or
/// because Tutti publishes them.
constexpr std::string_view kPublicLabels[] = {"tutti job name 1", "tutti groups 1",
                                              "tutti exchange view 1"};
constexpr std::string_view kProofLabel = "tutti job key proof 2";
constexpr std::string_view kTagLabel = "tutti datagram tag 2";
constexpr std::size_t kTagKeyBytes = 16;

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void note(const char* kind, std::string_view label, Octets bytes) {
  static std::mutex mutex;
  const char* const folder = std::getenv("KEY_WITNESS");
  if (folder == nullptr || bytes.empty()) return;
  std::string line = std::string(kind) + ' ';
  for (const char c : label) line += std::isgraph(static_cast<unsigned char>(c)) != 0 ? c : '-';
  line += ' ';
  char digits[3];
  for (const unsigned char byte : bytes) {
    std::snprintf(digits, sizeof digits, "%02x", byte);
    line += digits;
  }
  line += '\n';
  const std::lock_guard lock(mutex);
  const std::string path = std::string(folder) + "/" + std::to_string(getpid());
  if (std::FILE* const file = std::fopen(path.c_str(), "a")) {
    std::fputs(line.c_str(), file);
    std::fclose(file);
  }
}

Octets octets(const OSSL_PARAM parameters[], const char* name) {
  const OSSL_PARAM* const found = OSSL_PARAM_locate_const(parameters, name);
  if (found == nullptr) return {};
  return {static_cast<const unsigned char*>(found->data), found->data_size};
}

/// The longest prefix of the bytes that consists of printable characters.
std::string_view text(Octets bytes) {
  std::size_t length = 0;
  while (length < bytes.size() && (std::isgraph(bytes[length]) != 0 || bytes[length] == ' '))
    ++length;
  return {reinterpret_cast<const char*>(bytes.data()), length};
}

/// Writes down the keys that UMAC derives from `key` (RFC 4418, 3.2.1): for the pad, and for its
/// three layers.
void note_umac(Octets key) {
  constexpr std::size_t kBytes[] = {16, 1024 + 16, 48, 128, 8};
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  EVP_EncryptInit_ex(context, EVP_aes_128_ecb(), nullptr, key.data(), nullptr);
  for (std::size_t index = 0; index < std::size(kBytes); ++index) {
    std::vector<unsigned char> derived;
    for (unsigned i = 1; derived.size() < kBytes[index]; ++i) {
      unsigned char block[16] = {};
      block[7] = static_cast<unsigned char>(index);
      block[15] = static_cast<unsigned char>(i);
      unsigned char out[32];
      int size = 0;
      EVP_EncryptUpdate(context, out, &size, block, sizeof block);
      derived.insert(derived.end(), out, out + sizeof block);
    }
    derived.resize(kBytes[index]);
    note("secret", "umac-" + std::to_string(index), derived);
  }
  EVP_CIPHER_CTX_free(context);
}

}  // namespace

extern "C" {

EVP_PKEY* EVP_PKEY_new_raw_private_key(int type, ENGINE* engine, const unsigned char* key,
                                       size_t size) {
  static const auto next =
      real<decltype(&EVP_PKEY_new_raw_private_key)>("EVP_PKEY_new_raw_private_key");
  note("secret", "x25519-private", {key, size});
  return next(type, engine, key, size);
}

int EVP_KDF_derive(EVP_KDF_CTX* context, unsigned char* key, size_t size,
                   const OSSL_PARAM parameters[]) {
  static const auto next = real<decltype(&EVP_KDF_derive)>("EVP_KDF_derive");
  const int result = next(context, key, size, parameters);
  if (result != 1) return result;
  std::string label(text(octets(parameters, OSSL_KDF_PARAM_INFO)));
  if (label.empty()) label = "tls-" + std::string(text(octets(parameters, OSSL_KDF_PARAM_LABEL)));
  for (const std::string_view one : kPublicLabels) {
    if (label.starts_with(one)) return result;
  }
  note("secret", "input-of-" + label, octets(parameters, OSSL_KDF_PARAM_KEY));
  const bool proof = label.starts_with(kProofLabel);
  note(proof ? "public" : "secret", label, {key, size});
  if (label.starts_with(kTagLabel) && size == kTagKeyBytes) note_umac({key, size});
  return result;
}

int EVP_PKEY_derive(EVP_PKEY_CTX* context, unsigned char* key, size_t* size) {
  static const auto next = real<decltype(&EVP_PKEY_derive)>("EVP_PKEY_derive");
  const int result = next(context, key, size);
  if (result == 1 && key != nullptr) note("secret", "x25519", {key, *size});
  return result;
}

int EVP_PKEY_get_raw_public_key(const EVP_PKEY* pair, unsigned char* key, size_t* size) {
  static const auto next =
      real<decltype(&EVP_PKEY_get_raw_public_key)>("EVP_PKEY_get_raw_public_key");
  const int result = next(pair, key, size);
  if (result == 1 && key != nullptr) note("public", "x25519", {key, *size});
  return result;
}

int unlink(const char* path) noexcept {
  static const auto next = real<int (*)(const char*)>("unlink");
  static std::atomic<unsigned> number{0};
  const char* const store = std::getenv("KEY_WITNESS_STORE");
  const char* const folder = std::getenv("KEY_WITNESS");
  if (store != nullptr && folder != nullptr && std::string_view(path).starts_with(store)) {
    const std::string kept =
        std::string(folder) + "/" + std::to_string(getpid()) + "." + std::to_string(number++);
    (void)!link(path, kept.c_str());
  }
  return next(path);
}

}  // extern "C"
