// The agreement of the ranks of a communicator on its secret, over any bootstrap. No exchange
// carries the secret or a key in clear, so the bootstrap need not be confidential.
//
//   first exchange   every rank: a key offer (an ephemeral X25519 public key, and, with a job key,
//                    a proof over the whole contribution), then its peer options
//   second exchange  rank 0: the secret, sealed for each other rank; then its address
//                    other ranks: their address
//
// The key that seals the secret for rank r is HKDF-SHA-256 of the X25519 secret of both ranks and
// the job key, with the hash of all contributions to the first exchange as salt, and both ranks as
// info. Each rank compares the bytes that come back for it with those that it sent. From all
// contributions and the secret it derives its view of the exchanges, and the membership check
// compares the views of all ranks. Without a job key, a party that changes the bootstrap's bytes
// can take part; with a job key, this party can only make the creation of the communicator fail.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "crypto/aead.hpp"
#include "crypto/hash.hpp"
#include "crypto/secret.hpp"
#include "crypto/x25519.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/keys/key_offer.hpp"
#include "tutti/status.hpp"
#include "tutti/units.hpp"

namespace tutti::runtime {

/// Size in bytes of the secret that rank 0 seals for one other rank.
inline constexpr std::size_t kSealedSecretBytes = crypto::Secret::kBytes + crypto::kSealTagBytes;

/// Derived from the secret and all contributions to both exchanges: equal on two ranks only if both
/// received the same bytes. A party without the secret cannot compute it.
using ExchangeView = std::array<std::byte, 16>;

class KeyAgreement {
 public:
  /// `job_key` is null in a job without a key; it must outlive this object.
  static Result<KeyAgreement> begin(Rank rank, std::uint32_t size, const crypto::Secret* job_key);

  /// This rank's contribution to the first exchange.
  Result<Bytes> first(std::span<const std::byte> peer_options);
  /// Reads all contributions to the first exchange. Returns the peer options of each rank, which
  /// refer to memory of `contributions`. Fails if a rank has a different job key from this rank, if
  /// only one of the two has a key, or if a contribution was changed on the way and there is a job
  /// key or the contribution is this rank's own.
  Result<std::vector<std::span<const std::byte>>> take_first(std::span<const Bytes> contributions);
  /// Fills `out` with bytes that are equal on all ranks and different for each communicator. They
  /// are derived from the first exchange, so they reveal nothing of the secret.
  Status public_bytes(std::string_view label, std::span<std::byte> out) const;
  /// This rank's contribution to the second exchange. At rank 0 this function also generates the
  /// secret.
  Result<Bytes> second(std::span<const std::byte> address);
  /// Reads all contributions to the second exchange and returns the secret. Removes the sealed
  /// secrets from rank 0's contribution, so that only the address of rank 0 remains. Fails if this
  /// rank's own contribution was changed on the way.
  Result<crypto::Secret> take_second(std::span<Bytes> contributions);
  /// This rank's exchange view, after take_second.
  const ExchangeView& view() const { return view_; }

 private:
  KeyAgreement(crypto::KeyPair pair, KeyOffer own, const crypto::Secret* job_key)
      : pair_(std::move(pair)), own_(own), job_key_(job_key) {}

  std::size_t sealed_bytes() const;
  Status check(const KeyOffer& offer, std::span<const std::byte> peer_options,
               std::uint32_t rank) const;
  Status compare_own(std::span<const Bytes> contributions, const Bytes& sent) const;
  Result<crypto::Secret> sealing_key(std::uint32_t other) const;
  Result<crypto::Secret> open_secret(std::span<const std::byte> contribution);

  crypto::KeyPair pair_;
  KeyOffer own_;
  const crypto::Secret* job_key_;
  std::vector<crypto::PublicKey> public_keys_;  ///< public keys of all ranks, indexed by rank
  crypto::Digest transcript_{};                 ///< hash of all contributions to the first exchange
  crypto::Secret secret_;                       ///< rank 0 only
  Bytes own_first_;                             ///< this rank's contribution to the first exchange
  Bytes own_second_;                            ///< this rank's contribution to the second exchange
  ExchangeView view_{};
};

}  // namespace tutti::runtime
