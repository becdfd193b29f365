#include "runtime/keys/key_offer.hpp"

#include <algorithm>
#include <string_view>

#include "base/error.hpp"
#include "crypto/hash.hpp"
#include "runtime/bootstrap/byte_fields.hpp"

namespace tutti::runtime {

namespace {

constexpr std::string_view kMagic = "tuttkey2";
constexpr std::string_view kProofLabel = "tutti job key proof 2";
constexpr std::size_t kKeyOffset = 20;

void put_text(Bytes& bytes, std::string_view text) { put(bytes, std::as_bytes(std::span(text))); }

/// Appends all fields of an offer except its proof.
void append_claims(Bytes& bytes, const KeyOffer& offer) {
  put_text(bytes, kMagic);
  put_u32(bytes, offer.rank);
  put_u32(bytes, offer.size);
  put_u32(bytes, offer.keyed ? 1 : 0);
  put(bytes, offer.public_key);
}

}  // namespace

void append(Bytes& bytes, const KeyOffer& offer) {
  append_claims(bytes, offer);
  put(bytes, offer.proof);
}

Result<KeyOffer> decode_key_offer(std::span<const std::byte> bytes) {
  const auto magic = std::as_bytes(std::span(kMagic));
  if (bytes.size() < KeyOffer::kBytes || !std::equal(magic.begin(), magic.end(), bytes.begin())) {
    return failure(Code::invalid_argument,
                   "the first message does not begin with a key offer: use the same build of Tutti "
                   "on all ranks");
  }
  const std::uint32_t keyed = get_u32(bytes, 16);
  KeyOffer offer{.rank = get_u32(bytes, 8), .size = get_u32(bytes, 12), .keyed = keyed == 1};
  std::copy_n(bytes.begin() + kKeyOffset, offer.public_key.size(), offer.public_key.begin());
  std::copy_n(bytes.begin() + kKeyOffset + offer.public_key.size(), offer.proof.size(),
              offer.proof.begin());
  if (keyed > 1 || (keyed == 0 && offer.proof != KeyOffer::Proof{})) {
    return failure(Code::invalid_argument,
                   "the key offer is damaged: use the same build of Tutti on all ranks");
  }
  return offer;
}

Result<KeyOffer::Proof> prove(const KeyOffer& offer, std::span<const std::byte> peer_options,
                              const crypto::Secret& job_key) {
  const auto options = crypto::sha256(peer_options);
  if (!options) return options.status();
  Bytes info;
  put_text(info, kProofLabel);
  append_claims(info, offer);
  put(info, *options);
  KeyOffer::Proof proof;
  if (Status status = crypto::hkdf({.key = job_key.bytes(), .info = info}, proof); !status)
    return status;
  return proof;
}

}  // namespace tutti::runtime
