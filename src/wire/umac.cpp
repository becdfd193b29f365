#include "wire/umac.hpp"

#include <algorithm>

#include "crypto/secret.hpp"

namespace tutti::wire {
namespace {

__extension__ using Uint128 = unsigned __int128;

/// POLY of RFC 4418, 5.3, modulo the prime 2^64 - 59. The value is kept below 2^64 and reduced
/// below the prime only in `result`.
class Polynomial {
 public:
  explicit Polynomial(std::uint64_t key) : key_(key) {}

  void append(std::uint64_t word) {
    if (word >= kMaxWordRange) [[unlikely]] {
      multiply_add(kMarker);
      word -= kOffset;
    }
    multiply_add(word);
  }

  std::uint64_t result() const { return value_ >= kPrime ? value_ - kPrime : value_; }

 private:
  static constexpr std::uint64_t kOffset = 59;
  static constexpr std::uint64_t kPrime = 0 - kOffset;
  static constexpr std::uint64_t kMarker = kPrime - 1;
  static constexpr std::uint64_t kMaxWordRange = 0xffff'ffff'0000'0000;

  // Modulo kPrime, 2^64 is congruent to kOffset, so add() replaces a carry out of 64 bits by
  // kOffset. Adding kOffset cannot carry again, because words are below 2^64 - 59 and the key is
  // below 2^57.
  void multiply_add(std::uint64_t word) {
    const Uint128 product = Uint128{value_} * key_;
    const auto low = static_cast<std::uint64_t>(product);
    const auto high = static_cast<std::uint64_t>(product >> 64);
    value_ = add(add(low, word), high * kOffset);
  }

  static std::uint64_t add(std::uint64_t a, std::uint64_t b) {
    std::uint64_t sum;
    const bool carry = __builtin_add_overflow(a, b, &sum);
    return sum + (carry ? kOffset : 0);
  }

  std::uint64_t key_;
  std::uint64_t value_ = 1;
};

/// The first two layers of UMAC, NH and POLY, over a message whose groups are appended in order.
class BlockHash {
 public:
  BlockHash(const IntegrityKernels& kernels, const UmacKey& key)
      : kernels_(kernels), key_(key), first_(key.polynomial[0]), second_(key.polynomial[1]) {}

  /// Adds whole groups, and copies them to `destination` if kCopy.
  template <bool kCopy>
  void append(std::byte* destination, std::span<const std::byte> groups) {
    const NhFunction nh = kCopy ? kernels_.nh_copy : kernels_.nh;
    while (!groups.empty()) {
      const std::size_t count = std::min(groups.size() / kNhGroupBytes, kNhBlockGroups - group_);
      const Block sum = nh(key_.nh, group_, destination, groups.data(), count);
      sum_ = {sum_.first + sum.first, sum_.second + sum.second};
      group_ += count;
      if (group_ == kNhBlockGroups) close(kNhBlockBytes);
      groups = groups.subspan(count * kNhGroupBytes);
      if constexpr (kCopy) destination += count * kNhGroupBytes;
    }
  }

  /// Adds the last `tail_bytes` bytes of a message of `total_bytes` bytes and returns the values of
  /// both hash streams. The memory behind these bytes must be zero up to the end of their last
  /// group. An empty message counts as one group of zeros.
  Block finish(const std::byte* tail, std::size_t tail_bytes, std::size_t total_bytes) {
    const std::size_t groups =
        std::max((tail_bytes + kNhGroupBytes - 1) / kNhGroupBytes, std::size_t{total_bytes == 0});
    for (std::size_t i = 0; i < groups; ++i) {
      if (group_ == kNhBlockGroups) close(kNhBlockBytes);
      add_group(sum_, key_.nh, group_++, tail + i * kNhGroupBytes);
    }
    if (group_ > 0) close(total_bytes - blocks_ * kNhBlockBytes);
    return blocks_ == 1 ? last_ : Block{first_.result(), second_.result()};
  }

 private:
  void close(std::size_t block_bytes) {
    last_ = {sum_.first + 8 * block_bytes, sum_.second + 8 * block_bytes};
    first_.append(last_.first);
    second_.append(last_.second);
    sum_ = {};
    group_ = 0;
    ++blocks_;
  }

  const IntegrityKernels& kernels_;
  const UmacKey& key_;
  Polynomial first_;
  Polynomial second_;
  Block sum_;               // NH sums of the open block
  Block last_;              // NH values of the last closed block
  std::size_t group_ = 0;   // index of the next group in the open block
  std::size_t blocks_ = 0;  // number of blocks closed so far
};

constexpr std::uint64_t kInnerPrime = (std::uint64_t{1} << 36) - 5;

/// The third layer of one stream (RFC 4418, 5.4), whose input has 64 significant bits.
std::uint32_t inner_product(std::uint64_t value, const std::array<std::uint64_t, 4>& key,
                            std::uint32_t translation) {
  std::uint64_t sum = 0;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < key.size(); ++i) sum += (value >> (48 - 16 * i) & 0xffff) * key[i];
  // Reduces the sum, which is below 2^54, modulo 2^36 - 5. The bits from 2^36 upwards count five
  // times, because 2^36 is congruent to 5.
  sum = (sum & (kInnerPrime + 4)) + (sum >> 36) * 5;
  if (sum >= kInnerPrime) sum -= kInnerPrime;
  return static_cast<std::uint32_t>(sum) ^ translation;
}

template <bool kCopy>
std::uint64_t compute(const IntegrityKernels& kernels, const UmacKey& key, const PadChoice& choice,
                      std::byte* destination, const UmacMessage& message) {
  // The pad is computed first, so that the processor overlaps it with NH: AES has a long latency
  // but few instructions.
  const Block pad = kernels.pad(key.pad, choice.block);
  BlockHash hash(kernels, key);
  std::span<const std::byte> body = message.first;
  if constexpr (!kCopy) {
    if (!message.rest.empty()) {
      hash.append<false>(nullptr, body);
      body = message.rest;
    }
  }
  const std::size_t whole = body.size() / kNhGroupBytes * kNhGroupBytes;
  hash.append<kCopy>(destination, body.first(whole));
  const auto left = body.subspan(whole);
  alignas(kNhGroupBytes) std::array<std::byte, 2 * kNhGroupBytes> tail{};
  if (!left.empty()) {
    std::memcpy(tail.data(), left.data(), left.size());
    if constexpr (kCopy) std::memcpy(destination + whole, left.data(), left.size());
  }
  if (!message.end.empty()) {
    std::memcpy(tail.data() + left.size(), message.end.data(), message.end.size());
  }
  const Block value = hash.finish(tail.data(), left.size() + message.end.size(),
                                  message.first.size() + message.rest.size() + message.end.size());
  const std::uint64_t high = inner_product(value.first, key.inner[0], key.translation[0]);
  const std::uint64_t low = inner_product(value.second, key.inner[1], key.translation[1]);
  return __builtin_bswap64(high << 32 | low) ^ (choice.second_half ? pad.second : pad.first);
}

/// KDF of RFC 4418, 3.2.
void derive_bytes(const crypto::BlockCipher& cipher, std::uint64_t index,
                  std::span<std::byte> out) {
  std::uint64_t counter = 0;
  while (!out.empty()) {
    const Block input{__builtin_bswap64(index), __builtin_bswap64(++counter)};
    const auto block = cipher.encrypt(std::bit_cast<crypto::BlockCipher::Block>(input));
    const std::size_t size = std::min(out.size(), block.size());
    std::copy_n(block.begin(), size, out.begin());
    out = out.subspan(size);
  }
}

/// Words that are derived from the UMAC key, converted from big-endian.
template <typename Word, std::size_t kWords>
std::array<Word, kWords> derive_words(const crypto::BlockCipher& cipher, std::uint64_t index) {
  std::array<Word, kWords> words;
  derive_bytes(cipher, index, std::as_writable_bytes(std::span(words)));
  for (Word& word : words) {
    if constexpr (sizeof(Word) == 4) word = __builtin_bswap32(word);
    if constexpr (sizeof(Word) == 8) word = __builtin_bswap64(word);
  }
  return words;
}

template <typename Words>
void wipe_words(Words& words) {
  crypto::wipe(std::as_writable_bytes(std::span(words)));
}

void derive_hash_keys(const crypto::BlockCipher& cipher, UmacKey& to) {
  constexpr std::uint64_t kPolynomialMask = 0x01ff'ffff'01ff'ffff;
  auto l1 = derive_words<std::uint32_t, kNhKeyBytes / 4>(cipher, 1);
  for (std::size_t i = 0; i < l1.size(); ++i) {
    const std::size_t unit = i / kNhUnitWords;
    const std::size_t at = unit / 2 * kNhUnitWords + i % kNhUnitWords;
    (unit % 2 == 0 ? to.nh.even[at] : to.nh.odd[at]) = l1[i];
  }
  auto l2 = derive_words<std::uint64_t, 6>(cipher, 2);
  auto l3 = derive_words<std::uint64_t, 16>(cipher, 3);
  for (std::size_t stream = 0; stream < 2; ++stream) {
    to.polynomial[stream] = l2[3 * stream] & kPolynomialMask;
    for (std::size_t i = 0; i < 4; ++i) to.inner[stream][i] = l3[8 * stream + 4 + i] % kInnerPrime;
  }
  to.translation = derive_words<std::uint32_t, 2>(cipher, 4);
  wipe_words(l1);
  wipe_words(l2);
  wipe_words(l3);
}

}  // namespace

UmacKey::~UmacKey() {
  wipe_words(nh.even);
  wipe_words(nh.odd);
  wipe_words(polynomial);
  wipe_words(inner);
  wipe_words(translation);
  wipe_words(pad.rounds);
}

Result<std::shared_ptr<const UmacKey>> UmacKey::derive(
    std::span<const std::byte, kUmacKeyBytes> key) {
  auto cipher = crypto::BlockCipher::aes128(key);
  if (!cipher) return cipher.status();
  auto keys = std::make_shared<UmacKey>();
  derive_hash_keys(**cipher, *keys);
  std::array<std::byte, kUmacKeyBytes> pad_key;
  derive_bytes(**cipher, 0, pad_key);
  auto pad_cipher = crypto::BlockCipher::aes128(pad_key);
  if (!pad_cipher) return pad_cipher.status();
  keys->pad.cipher = std::move(*pad_cipher);
  expand_pad_key(pad_key, keys->pad);
  crypto::wipe(pad_key);
  return std::shared_ptr<const UmacKey>(std::move(keys));
}

PadChoice PadChoice::of(Block nonce) {
  constexpr std::uint64_t kLastBit = std::uint64_t{1} << 56;
  return {{nonce.first, nonce.second & ~kLastBit}, (nonce.second & kLastBit) != 0};
}

PadChoice PadChoice::of(std::span<const std::byte> nonce) {
  std::array<std::byte, sizeof(Block)> padded{};
  std::copy(nonce.begin(), nonce.end(), padded.begin());
  std::byte& last = padded[nonce.size() - 1];
  const bool second = (last & std::byte{1}) != std::byte{0};
  last &= ~std::byte{1};
  return {std::bit_cast<Block>(padded), second};
}

std::uint64_t umac64(const IntegrityKernels& kernels, const UmacKey& key, const PadChoice& pad,
                     const UmacMessage& message) {
  return compute<false>(kernels, key, pad, nullptr, message);
}

std::uint64_t umac64_copy(const IntegrityKernels& kernels, const UmacKey& key, const PadChoice& pad,
                          std::byte* destination, const UmacMessage& message) {
  return compute<true>(kernels, key, pad, destination, message);
}

}  // namespace tutti::wire
