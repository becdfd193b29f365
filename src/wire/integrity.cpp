#include "wire/integrity.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "crypto/hash.hpp"
#include "crypto/secret.hpp"
#include "wire/integrity_kernels.hpp"

namespace tutti::wire {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr std::uint64_t low64(Uint128 value) { return static_cast<std::uint64_t>(value); }
constexpr std::uint64_t high64(Uint128 value) { return static_cast<std::uint64_t>(value >> 64); }

struct PolynomialKey {
  std::uint64_t low = 0;   // lower 64 bits of the key r, clamped as in RFC 8439
  std::uint64_t high = 0;  // upper 64 bits of the key r, a multiple of 4
};

/// Poly1305 over 16-byte values, without its final addition.
class Polynomial {
 public:
  explicit Polynomial(const PolynomialKey& key) : key_(key), folded_(key.high + (key.high >> 2)) {}

  void append(const Block& value) {
    const Uint128 low = Uint128{low_} + value.first;
    const Uint128 high = Uint128{high_} + value.second + high64(low);
    multiply(low64(low), low64(high), top_ + high64(high) + 1);
  }

  /// Returns the value modulo 2^130 - 5, then modulo 2^128.
  Block result() const {
    const Uint128 sum = Uint128{low_} + 5;
    const Uint128 middle = Uint128{high_} + high64(sum);
    const bool wrapped = top_ + high64(middle) >= 4;  // the value is at least the modulus 2^130 - 5
    return wrapped ? Block{low64(sum), low64(middle)} : Block{low_, high_};
  }

 private:
  // Multiplies (low, high, top) by r modulo 2^130 - 5, where 2^130 equals 5. A value 4m with the
  // weight 2^128 thus counts as 5m with the weight 1: folded_ is 5/4 of the upper limb of r.
  void multiply(std::uint64_t low, std::uint64_t high, std::uint64_t top) {
    const Uint128 at0 = Uint128{low} * key_.low + Uint128{high} * folded_;
    const Uint128 at1 = Uint128{low} * key_.high + Uint128{high} * key_.low + top * folded_;
    const Uint128 middle = at1 + high64(at0);
    const std::uint64_t upper = top * key_.low + high64(middle);
    const Uint128 sum = Uint128{low64(at0)} + (upper >> 2) * 5;
    const Uint128 carried = Uint128{low64(middle)} + high64(sum);
    low_ = low64(sum);
    high_ = low64(carried);
    top_ = (upper & 3) + high64(carried);
  }

  PolynomialKey key_;
  std::uint64_t folded_;
  std::uint64_t low_ = 0;
  std::uint64_t high_ = 0;
  std::uint64_t top_ = 0;
};

}  // namespace

/// The keys of one communicator, derived from the job's secret.
struct TagKey {
  alignas(64) std::array<std::byte, kNhKeyBytes> nh{};
  PolynomialKey polynomial;
  AesKey aes;

  TagKey() = default;
  TagKey(const TagKey&) = delete;
  TagKey& operator=(const TagKey&) = delete;
  ~TagKey() {
    crypto::wipe(nh);
    crypto::wipe(std::as_writable_bytes(std::span(&polynomial, 1)));
    crypto::wipe(std::as_writable_bytes(std::span(&aes, 1)));
  }
};

namespace {

constexpr std::size_t kDerivedBytes = kNhKeyBytes + 16 + kAesKeyBytes;
constexpr std::string_view kDerivationLabel = "tutti datagram tag 1";
constexpr std::size_t kMinimumSecretBytes = 16;
constexpr std::size_t kMaximumSecretBytes = 32;

const IntegrityKernels& fastest(std::span<const IntegrityKernels> kernels) {
  return *std::ranges::find_if(kernels, [](const auto& kernel) { return kernel.runs_here(); });
}

std::span<const IntegrityKernels> kernels_of(IntegrityKind kind) {
  return kind == IntegrityKind::keyed_tag ? nh_kernels() : crc_kernels();
}

/// NH of a block of at most kNhBlockBytes bytes: whole groups are read in place, and the rest is
/// copied into a zero-padded group.
template <bool kCopy>
Block hash_block(const IntegrityKernels& kernels, const TagKey& key, std::byte* destination,
                 std::span<const std::byte> block) {
  const NhFunction nh = kCopy ? kernels.nh_copy : kernels.nh;
  const std::size_t whole = block.size() / kNhGroupBytes * kNhGroupBytes;
  Block value = nh(key.nh.data(), destination, block.data(), whole / kNhGroupBytes);
  const std::size_t rest = block.size() - whole;
  if (rest == 0) return value;
  alignas(kNhGroupBytes) std::array<std::byte, kNhGroupBytes> padded{};
  std::memcpy(padded.data(), block.data() + whole, rest);
  if constexpr (kCopy) std::memcpy(destination + whole, padded.data(), rest);
  const Block last = kernels.nh(key.nh.data() + whole, nullptr, padded.data(), 1);
  value.first += last.first;
  value.second += last.second;
  return value;
}

/// The hash H (see integrity.hpp) of a payload that is longer than one NH block.
template <bool kCopy>
Block hash_blocks(const IntegrityKernels& kernels, const TagKey& key, std::byte* destination,
                  std::span<const std::byte> payload) {
  Polynomial polynomial(key.polynomial);
  for (std::size_t at = 0; at < payload.size(); at += kNhBlockBytes) {
    const std::size_t size = std::min(kNhBlockBytes, payload.size() - at);
    std::byte* const to = kCopy ? destination + at : nullptr;
    Block value = hash_block<kCopy>(kernels, key, to, payload.subspan(at, size));
    if (at + size == payload.size()) value.second += payload.size();
    polynomial.append(value);
  }
  return polynomial.result();
}

template <bool kCopy>
Block hash_payload(const IntegrityKernels& kernels, const TagKey& key, std::byte* destination,
                   std::span<const std::byte> payload) {
  if (payload.size() > kNhBlockBytes) {
    return hash_blocks<kCopy>(kernels, key, destination, payload);
  }
  Block value = hash_block<kCopy>(kernels, key, destination, payload);
  value.second += payload.size();
  return value;
}

template <bool kCopy>
std::uint64_t keyed_tag(const IntegrityKernels& kernels, const TagKey& key, std::byte* destination,
                        const std::byte* header, std::span<const std::byte> payload) {
  // The header is encrypted first, because AES has a long latency and few instructions; the
  // processor computes NH meanwhile.
  const Block first = kernels.encrypt(key.aes, load_word<Block>(header));
  const auto rest = load_word<std::uint64_t>(header + sizeof(Block));
  const Block mask = kernels.encrypt(key.aes, {first.first ^ rest, first.second});
  const Block hash = hash_payload<kCopy>(kernels, key, destination, payload);
  return kernels.encrypt(key.aes, {mask.first ^ hash.first, mask.second ^ hash.second}).first;
}

template <bool kCopy>
std::uint64_t checksum(const IntegrityKernels& kernels, std::byte* destination,
                       const std::byte* header, std::span<const std::byte> payload) {
  std::uint32_t state = kernels.crc(~std::uint32_t{0}, nullptr, header, kIntegrityHeaderBytes);
  const CrcFunction crc = kCopy ? kernels.crc_copy : kernels.crc;
  state = crc(state, destination, payload.data(), payload.size());
  return static_cast<std::uint32_t>(~state);
}

}  // namespace

Integrity::Integrity(const IntegrityKernels* kernels, std::shared_ptr<const TagKey> key)
    : kernels_(kernels), key_(std::move(key)) {}

Result<Integrity> Integrity::keyed(std::span<const std::byte> secret, std::uint64_t context) {
  if (secret.size() < kMinimumSecretBytes || secret.size() > kMaximumSecretBytes) {
    return failure(
        Code::invalid_argument,
        "the job's secret has {} bytes: give {} to {} random bytes, the same on every rank",
        secret.size(), kMinimumSecretBytes, kMaximumSecretBytes);
  }
  std::array<std::byte, kDerivedBytes> derived;
  if (Status status = crypto::derive(secret, kDerivationLabel, context, derived); !status)
    return status;
  auto key = std::make_shared<TagKey>();
  const std::byte* const bytes = derived.data();
  std::memcpy(key->nh.data(), bytes, kNhKeyBytes);
  key->polynomial.low = load_word<std::uint64_t>(bytes + kNhKeyBytes) & 0x0fff'fffc'0fff'ffff;
  key->polynomial.high = load_word<std::uint64_t>(bytes + kNhKeyBytes + 8) & 0x0fff'fffc'0fff'fffc;
  key->aes = expand_aes_key(
      std::span<const std::byte, kAesKeyBytes>(bytes + kNhKeyBytes + 16, kAesKeyBytes));
  crypto::wipe(derived);
  return Integrity(&fastest(nh_kernels()), std::move(key));
}

Integrity Integrity::crc() { return Integrity(&fastest(crc_kernels()), nullptr); }

IntegrityKind Integrity::kind() const { return kernels_->kind; }

const char* Integrity::implementation() const { return kernels_->name; }

std::uint64_t Integrity::tag(const std::byte* header, std::span<const std::byte> payload) const {
  return key_ ? keyed_tag<false>(*kernels_, *key_, nullptr, header, payload)
              : checksum<false>(*kernels_, nullptr, header, payload);
}

std::uint64_t Integrity::copy_and_tag(std::byte* destination, const std::byte* header,
                                      std::span<const std::byte> payload) const {
  return key_ ? keyed_tag<true>(*kernels_, *key_, destination, header, payload)
              : checksum<true>(*kernels_, destination, header, payload);
}

std::vector<std::string_view> Integrity::implementations(IntegrityKind kind) {
  std::vector<std::string_view> names;
  for (const IntegrityKernels& kernels : kernels_of(kind)) {
    if (kernels.runs_here()) names.emplace_back(kernels.name);
  }
  return names;
}

Result<Integrity> Integrity::with_implementation(std::string_view name) const {
  for (const IntegrityKernels& kernels : kernels_of(kind())) {
    if (kernels.name == name && kernels.runs_here()) return Integrity(&kernels, key_);
  }
  return failure(Code::unsupported,
                 "this processor has no implementation \"{}\" of this kind of integrity word: "
                 "leave the choice to Tutti (here \"{}\")",
                 name, fastest(kernels_of(kind())).name);
}

}  // namespace tutti::wire
