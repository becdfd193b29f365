// Fuzzes the key agreement: the decoder of key offers, and a rank that receives a forged offer and
// a forged sealed secret. The rank must refuse every forged secret.
#include "runtime/keys/key_agreement.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fuzz.hpp"

namespace {

using namespace tutti;           // NOLINT: no other file includes this source file
using namespace tutti::runtime;  // NOLINT
using fuzz::require;

void check_offer(std::span<const std::byte> bytes) {
  const auto offer = decode_key_offer(bytes);
  if (!offer.ok()) {
    require(!offer.status().message().empty());
    return;
  }
  Bytes again;
  append(again, *offer);
  require(again.size() == KeyOffer::kBytes &&
          std::equal(again.begin(), again.end(), bytes.begin()));
}

/// Rank 1 runs the agreement with a hostile rank 0: the input supplies the last bytes of rank
/// 0's offer and the bytes of its sealed secret. An offer without a key must have no proof.
void check_agreement(std::span<const std::byte> bytes) {
  static const crypto::Secret key;
  for (const crypto::Secret* job_key : {static_cast<const crypto::Secret*>(nullptr), &key}) {
    auto keys = KeyAgreement::begin(rank_of(1), 2, job_key);
    require(keys.ok());
    const KeyOffer honest{.rank = 0, .size = 2, .keyed = job_key != nullptr};
    Bytes first;
    append(first, honest);
    const std::size_t part = std::min<std::size_t>(bytes.size(), job_key != nullptr ? 64 : 32);
    std::copy_n(bytes.begin(), part, first.end() - 64);
    if (!keys->take_first(std::vector<Bytes>{first, *keys->first({})}).ok()) continue;
    require(job_key == nullptr);
    const auto rest = bytes.subspan(part);
    Bytes forged(std::max(rest.size(), kSealedSecretBytes));
    std::copy(rest.begin(), rest.end(), forged.begin());
    std::vector<Bytes> second{forged, *keys->second({})};
    require(!keys->take_second(second).ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check_offer(bytes);
  check_agreement(bytes);
  return 0;
}
