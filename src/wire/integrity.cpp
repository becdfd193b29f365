#include "wire/integrity.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "crypto/hash.hpp"
#include "crypto/secret.hpp"
#include "wire/header.hpp"
#include "wire/uc_fragment.hpp"
#include "wire/umac.hpp"

namespace tutti::wire {
namespace {

// Bit that is set only in the stream numbers of reliable frames and path probes. The other bits of
// these numbers are the destination rank.
constexpr std::uint32_t kReliableStream = 0x8000'0000;
static_assert(kMaxRanks <= kReliableStream);

constexpr std::string_view kDerivationLabel = "tutti datagram tag 2";
constexpr std::size_t kMinimumSecretBytes = 16;
constexpr std::size_t kMaximumSecretBytes = 32;

static_assert(kMaxMessageBytes + kIntegrityHeaderBytes <= kUmacMaxBytes);
static_assert(kIntegrityHeaderBytes <= kNhGroupBytes);
static_assert(kIntegrityPartBytes % kNhGroupBytes == 0);

const IntegrityKernels& fastest(std::span<const IntegrityKernels> kernels) {
  return *std::ranges::find_if(kernels, [](const auto& kernel) { return kernel.runs_here(); });
}

std::span<const IntegrityKernels> kernels_of(IntegrityKind kind) {
  return kind == IntegrityKind::keyed_tag ? umac_kernels() : crc_kernels();
}

UmacMessage message_of(const std::byte* header, std::span<const std::byte> first,
                       std::span<const std::byte> rest) {
  return {.first = first, .rest = rest, .end = {header, kIntegrityHeaderBytes}};
}

std::uint32_t begin_checksum(const IntegrityKernels& kernels, const std::byte* header) {
  return kernels.crc(~std::uint32_t{0}, nullptr, header, kIntegrityHeaderBytes);
}

constexpr std::uint64_t end_checksum(std::uint32_t state) {
  return static_cast<std::uint32_t>(~state);
}

}  // namespace

Block nonce_of(const std::byte* header) {
  const auto kind = load_word<std::uint8_t>(header) & 0xf;
  const auto psn = load_word<std::uint32_t>(header + kPsnOffset);
  const bool reliable = kind == static_cast<std::uint8_t>(PacketKind::reliable) ||
                        kind == static_cast<std::uint8_t>(PacketKind::path_probe);
  const std::uint32_t stream =
      reliable ? kReliableStream | psn
               : static_cast<std::uint32_t>(kind) << 8 | load_word<std::uint8_t>(header + 1);
  const std::uint64_t source = load_word<std::uint32_t>(header + kSourceOffset);
  return {__builtin_bswap64(std::uint64_t{stream} << 32 | source),
          __builtin_bswap64(load_word<std::uint64_t>(header + kCounterOffset))};
}

Integrity::Integrity(const IntegrityKernels* kernels, std::shared_ptr<const UmacKey> key)
    : kernels_(kernels), key_(std::move(key)) {}

Result<Integrity> Integrity::keyed(std::span<const std::byte> secret, std::uint64_t context) {
  if (secret.size() < kMinimumSecretBytes || secret.size() > kMaximumSecretBytes) {
    return failure(
        Code::invalid_argument,
        "the job's secret has {} bytes: give {} to {} random bytes, the same on every rank",
        secret.size(), kMinimumSecretBytes, kMaximumSecretBytes);
  }
  std::array<std::byte, kUmacKeyBytes> derived;
  if (Status status = crypto::derive(secret, kDerivationLabel, context, derived); !status)
    return status;
  auto key = UmacKey::derive(derived);
  crypto::wipe(derived);
  if (!key) return key.status();
  return Integrity(&fastest(umac_kernels()), std::move(*key));
}

Integrity Integrity::crc() { return Integrity(&fastest(crc_kernels()), nullptr); }

IntegrityKind Integrity::kind() const { return kernels_->kind; }

const char* Integrity::implementation() const { return kernels_->name; }

std::uint64_t Integrity::tag(const std::byte* header, std::span<const std::byte> payload,
                             std::span<const std::byte> rest) const {
  if (key_) {
    return umac64(*kernels_, *key_, PadChoice::of(nonce_of(header)),
                  message_of(header, payload, rest));
  }
  std::uint32_t state = begin_checksum(*kernels_, header);
  state = kernels_->crc(state, nullptr, payload.data(), payload.size());
  return end_checksum(kernels_->crc(state, nullptr, rest.data(), rest.size()));
}

std::uint64_t Integrity::copy_and_tag(std::byte* destination, const std::byte* header,
                                      std::span<const std::byte> payload) const {
  if (key_) {
    return umac64_copy(*kernels_, *key_, PadChoice::of(nonce_of(header)), destination,
                       message_of(header, payload, {}));
  }
  const std::uint32_t state = begin_checksum(*kernels_, header);
  return end_checksum(kernels_->crc_copy(state, destination, payload.data(), payload.size()));
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
  return failure(
      Code::unsupported,
      "the implementation \"{}\" does not exist for this kind of integrity word, or does "
      "not run on this processor: use the default, \"{}\"",
      name, fastest(kernels_of(kind())).name);
}

}  // namespace tutti::wire
