#include "runtime/keys/key_agreement.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "runtime/bootstrap/byte_fields.hpp"
#include "runtime/keys/key_file.hpp"

namespace tutti::runtime {

namespace {

constexpr std::string_view kTranscriptLabel = "tutti key agreement 1";
constexpr std::string_view kSealLabel = "tutti sealed secret 1";

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Result<KeyAgreement> KeyAgreement::begin(Rank rank, std::uint32_t size,
                                         const crypto::Secret* job_key) {
  auto pair = crypto::KeyPair::random();
  if (!pair) return pair.status();
  KeyOffer own{.rank = index(rank),
               .size = size,
               .keyed = job_key != nullptr,
               .public_key = pair->public_key()};
  if (job_key != nullptr) {
    const auto proof = prove(own, *job_key);
    if (!proof) return proof.status();
    own.proof = *proof;
  }
  return KeyAgreement(std::move(*pair), own, job_key);
}

Bytes KeyAgreement::first(std::span<const std::byte> peer_options) const {
  Bytes bytes;
  append(bytes, own_);
  bytes.insert(bytes.end(), peer_options.begin(), peer_options.end());
  return bytes;
}

Status KeyAgreement::check(const KeyOffer& offer, std::uint32_t rank) const {
  if (offer.rank != rank || offer.size != own_.size) {
    return failure(
        Code::invalid_argument,
        "the bootstrap returned the bytes of rank {2} of {3} in the place of rank {0} of {1}: give "
        "every process a rank of its own, and all processes the same number of ranks",
        rank, own_.size, offer.rank, offer.size);
  }
  if (offer.keyed != own_.keyed) {
    return failure(Code::invalid_argument, "rank {} has a job key but rank {} has none: {}",
                   offer.keyed ? rank : own_.rank, offer.keyed ? own_.rank : rank, kGiveSameKey);
  }
  if (job_key_ == nullptr) return {};
  const auto proof = prove(offer, *job_key_);
  if (!proof) return proof.status();
  if (crypto::equal(*proof, offer.proof)) return {};
  return failure(Code::invalid_argument, "the job key of rank {} differs from that of rank {}: {}",
                 rank, own_.rank, kGiveSameKey);
}

Result<std::vector<std::span<const std::byte>>> KeyAgreement::take_first(
    std::span<const Bytes> contributions) {
  std::vector<std::span<const std::byte>> peer_options;
  Bytes digests = bytes_of(kTranscriptLabel);
  public_keys_.clear();
  for (std::uint32_t rank = 0; rank < contributions.size(); ++rank) {
    const std::span<const std::byte> bytes = contributions[rank];
    const auto offer = decode_key_offer(bytes);
    if (!offer)
      return failure(offer.status().code(), "rank {}: {}", rank, offer.status().message());
    if (Status status = check(*offer, rank); !status) return status;
    const auto digest = crypto::sha256(bytes);
    if (!digest) return digest.status();
    digests.insert(digests.end(), digest->begin(), digest->end());
    public_keys_.push_back(offer->public_key);
    peer_options.push_back(bytes.subspan(KeyOffer::kBytes));
  }
  if (public_keys_.size() != own_.size || public_keys_[own_.rank] != own_.public_key) {
    return failure(Code::invalid_argument,
                   "the bootstrap does not return the bytes that rank {} contributed: make the "
                   "bootstrap gather the bytes of all ranks, unchanged and in rank order",
                   own_.rank);
  }
  const auto transcript = crypto::sha256(digests);
  if (!transcript) return transcript.status();
  transcript_ = *transcript;
  return peer_options;
}

Status KeyAgreement::public_bytes(std::string_view label, std::span<std::byte> out) const {
  return crypto::derive(transcript_, label, 0, out);
}

/// The key that seals the secret on its way from rank 0 to one other rank. Rank 0 passes the other
/// rank as `other`; each other rank passes 0.
Result<crypto::Secret> KeyAgreement::sealing_key(std::uint32_t other) const {
  const auto shared = pair_.shared_with(public_keys_[other]);
  if (!shared) {
    return failure(shared.status().code(), "rank {}: {}", other, shared.status().message());
  }
  std::array<std::byte, 2 * crypto::Secret::kBytes> keys{};
  const auto shared_bytes = shared->bytes();
  std::copy(shared_bytes.begin(), shared_bytes.end(), keys.begin());
  std::size_t size = shared_bytes.size();
  if (job_key_ != nullptr) {
    const auto job_bytes = job_key_->bytes();
    std::copy(job_bytes.begin(), job_bytes.end(), keys.begin() + crypto::Secret::kBytes);
    size = keys.size();
  }
  Bytes info = bytes_of(kSealLabel);
  const std::uint32_t receiver = own_.rank == 0 ? other : own_.rank;
  for (const std::uint32_t rank : {0u, receiver}) put_u32(info, rank);
  crypto::Secret key;
  const Status status = crypto::hkdf(
      {.key = std::span(keys).first(size), .salt = transcript_, .info = info}, key.writable());
  crypto::wipe(keys);
  if (!status.ok()) return status;
  return key;
}

std::size_t KeyAgreement::sealed_bytes() const {
  return kSealedSecretBytes * (std::size_t{own_.size} - 1);
}

Result<Bytes> KeyAgreement::second(std::span<const std::byte> address) {
  Bytes bytes;
  if (own_.rank == 0) {
    auto drawn = crypto::Secret::random();
    if (!drawn) return drawn.status();
    secret_ = std::move(*drawn);
    for (std::uint32_t rank = 1; rank < own_.size; ++rank) {
      const auto key = sealing_key(rank);
      if (!key) return key.status();
      const auto sealed = crypto::seal(*key, secret_.bytes());
      if (!sealed) return sealed.status();
      bytes.insert(bytes.end(), sealed->begin(), sealed->end());
    }
  }
  bytes.insert(bytes.end(), address.begin(), address.end());
  return bytes;
}

Result<crypto::Secret> KeyAgreement::take_second(Bytes& contribution) {
  if (contribution.size() < sealed_bytes()) {
    return failure(
        Code::invalid_argument,
        "rank 0 sent {} bytes, fewer than the {} bytes of its sealed secrets: use the same build "
        "of Tutti on all ranks, and a bootstrap that delivers all bytes unchanged",
        contribution.size(), sealed_bytes());
  }
  crypto::Secret secret = std::move(secret_);
  if (own_.rank != 0) {
    const auto key = sealing_key(0);
    if (!key) return key.status();
    const auto sealed =
        std::span(contribution).subspan(kSealedSecretBytes * (own_.rank - 1), kSealedSecretBytes);
    if (!crypto::unseal(*key, sealed, secret.writable())) {
      return failure(
          Code::invalid_argument,
          "the secret that rank 0 sealed for rank {} cannot be unsealed, because bytes were "
          "changed on the way: use a bootstrap that delivers all bytes unchanged",
          own_.rank);
    }
  }
  contribution.erase(contribution.begin(),
                     contribution.begin() + static_cast<std::ptrdiff_t>(sealed_bytes()));
  return secret;
}

}  // namespace tutti::runtime
