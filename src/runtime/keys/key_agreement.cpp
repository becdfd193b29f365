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
constexpr std::string_view kViewLabel = "tutti exchange view 1";

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// The hash of `start` and of the hash of each contribution, so that no byte can move from one
/// contribution to the next.
Result<crypto::Digest> digest_of(Bytes start, std::span<const Bytes> contributions) {
  for (const Bytes& one : contributions) {
    const auto digest = crypto::sha256(one);
    if (!digest) return digest.status();
    put(start, *digest);
  }
  return crypto::sha256(start);
}

}  // namespace

Result<KeyAgreement> KeyAgreement::begin(Rank rank, std::uint32_t size,
                                         const crypto::Secret* job_key) {
  auto pair = crypto::KeyPair::random();
  if (!pair) return pair.status();
  const KeyOffer own{.rank = index(rank),
                     .size = size,
                     .keyed = job_key != nullptr,
                     .public_key = pair->public_key()};
  return KeyAgreement(std::move(*pair), own, job_key);
}

Result<Bytes> KeyAgreement::first(std::span<const std::byte> peer_options) {
  if (job_key_ != nullptr) {
    const auto proof = prove(own_, peer_options, *job_key_);
    if (!proof) return proof.status();
    own_.proof = *proof;
  }
  own_first_.clear();
  append(own_first_, own_);
  put(own_first_, peer_options);
  return own_first_;
}

Status KeyAgreement::check(const KeyOffer& offer, std::span<const std::byte> peer_options,
                           std::uint32_t rank) const {
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
  // This rank's own contribution needs no proof: it is compared with the bytes that were sent.
  if (job_key_ == nullptr || rank == own_.rank) return {};
  const auto proof = prove(offer, peer_options, *job_key_);
  if (!proof) return proof.status();
  if (crypto::equal(*proof, offer.proof)) return {};
  return failure(Code::invalid_argument,
                 "the job key of rank {0} differs from that of rank {1}, or the bootstrap changed "
                 "the bytes of rank {0}: {2}, or use a bootstrap that delivers them unchanged",
                 rank, own_.rank, kGiveSameKey);
}

/// Fails unless there is one contribution for each rank and that of this rank is as it was sent.
Status KeyAgreement::compare_own(std::span<const Bytes> contributions, const Bytes& sent) const {
  if (contributions.size() == own_.size && contributions[own_.rank] == sent) return {};
  return failure(Code::invalid_argument,
                 "the bootstrap does not return the bytes that rank {} contributed: make the "
                 "bootstrap gather the bytes of all ranks, unchanged and in rank order",
                 own_.rank);
}

Result<std::vector<std::span<const std::byte>>> KeyAgreement::take_first(
    std::span<const Bytes> contributions) {
  std::vector<std::span<const std::byte>> peer_options;
  public_keys_.clear();
  for (std::uint32_t rank = 0; rank < contributions.size(); ++rank) {
    const std::span<const std::byte> bytes = contributions[rank];
    const auto offer = decode_key_offer(bytes);
    if (!offer)
      return failure(offer.status().code(), "rank {}: {}", rank, offer.status().message());
    const auto options = bytes.subspan(KeyOffer::kBytes);
    if (Status status = check(*offer, options, rank); !status) return status;
    public_keys_.push_back(offer->public_key);
    peer_options.push_back(options);
  }
  if (Status status = compare_own(contributions, own_first_); !status) return status;
  const auto transcript = digest_of(bytes_of(kTranscriptLabel), contributions);
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
  put(bytes, address);
  own_second_ = bytes;
  return bytes;
}

/// The secret that rank 0 drew: at rank 0 its own, at another rank unsealed from `contribution`.
Result<crypto::Secret> KeyAgreement::open_secret(std::span<const std::byte> contribution) {
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
        contribution.subspan(kSealedSecretBytes * (own_.rank - 1), kSealedSecretBytes);
    if (!crypto::unseal(*key, sealed, secret.writable())) {
      return failure(
          Code::invalid_argument,
          "the secret that rank 0 sealed for rank {} cannot be unsealed, because bytes were "
          "changed on the way: use a bootstrap that delivers all bytes unchanged",
          own_.rank);
    }
  }
  return secret;
}

Result<crypto::Secret> KeyAgreement::take_second(std::span<Bytes> contributions) {
  if (Status status = compare_own(contributions, own_second_); !status) return status;
  Bytes& first = contributions.front();
  auto secret = open_secret(first);
  if (!secret) return secret.status();
  const auto seen = digest_of({transcript_.begin(), transcript_.end()}, contributions);
  if (!seen) return seen.status();
  const Bytes label = bytes_of(kViewLabel);
  const crypto::HkdfInput input{.key = secret->bytes(), .salt = *seen, .info = label};
  if (Status status = crypto::hkdf(input, view_); !status) return status;
  first.erase(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(sealed_bytes()));
  return secret;
}

}  // namespace tutti::runtime
