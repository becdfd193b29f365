#include "wire/tag_keys.hpp"

#include <algorithm>

#include "crypto/hash.hpp"

namespace tutti::wire {
namespace {

constexpr const char* kLabel = "tutti datagram tags 2";

std::uint64_t context_of(std::uint16_t communicator, std::uint64_t generation) {
  return generation << 16 | communicator;
}

}  // namespace

Result<TagKeys> TagKeys::keyed(std::span<const std::byte> secret, std::uint16_t communicator) {
  TagKeys keys;
  auto own = std::make_shared<crypto::Secret>();
  if (Status status = crypto::derive(secret, kLabel, communicator, own->writable()); !status)
    return status;
  auto first = Integrity::keyed(own->bytes(), context_of(communicator, 0));
  if (!first) return first.status();
  keys.secret_ = std::move(own);
  keys.communicator_ = communicator;
  keys.latest_ = std::move(*first);
  return keys;
}

const Integrity* TagKeys::of_other(std::uint64_t generation) {
  auto known = std::find_if(others_.begin(), others_.end(),
                            [&](const auto& other) { return other.first == generation; });
  if (known == others_.end()) {
    auto made = Integrity::keyed(secret_->bytes(), context_of(communicator_, generation));
    if (!made) return nullptr;
    others_.emplace_back(generation, std::move(*made));
    known = others_.end() - 1;
  }
  std::swap(known->first, generation_);
  std::swap(known->second, latest_);
  return &latest_;
}

}  // namespace tutti::wire
