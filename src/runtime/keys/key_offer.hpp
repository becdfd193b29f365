// Key offers: the structures of fixed size with which the ranks of a communicator agree on its
// secret, before they share any key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "crypto/x25519.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// The first bytes of a rank's contribution to the first exchange: the rank's ephemeral public key,
/// and a proof that a rank with the job key made the whole contribution.
struct KeyOffer {
  static constexpr std::size_t kBytes = 84;
  using Proof = std::array<std::byte, 32>;

  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  bool keyed = false;  ///< whether the rank has a job key
  crypto::PublicKey public_key{};
  Proof proof{};  ///< made with the job key; all zeros if the rank has none
};

/// Appends an offer to `bytes`.
void append(Bytes& bytes, const KeyOffer& offer);

/// Decodes the offer with which `bytes` begins.
Result<KeyOffer> decode_key_offer(std::span<const std::byte> bytes);

/// Computes the proof of an offer: the value of a pseudorandom function, with the job key as key,
/// and the offer's other fields and the peer options behind the offer as input.
Result<KeyOffer::Proof> prove(const KeyOffer& offer, std::span<const std::byte> peer_options,
                              const crypto::Secret& job_key);

}  // namespace tutti::runtime
