// Changed copies of valid datagrams, for tests that a job refuses damaged and forged datagrams.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/random.hpp"
#include "wire/header.hpp"

namespace tutti::test {

using Bytes = std::vector<std::byte>;

/// Gives a new value to one field of the header, or to one of the two words behind the header. The
/// value is close to the old one, small, or random.
inline void change_field(Bytes& bytes, Random& random) {
  struct Field {
    std::size_t at, size;
  };
  // Offset and size of each field: kind and version, subgroup, communicator, source, epoch, PSN,
  // counter and tag of the header, then the two words behind the header.
  constexpr Field kFields[] = {{0, 1},  {1, 1},  {2, 2},  {4, 4},  {8, 4},
                               {12, 4}, {16, 8}, {24, 8}, {32, 4}, {36, 4}};
  const Field field = kFields[random.below(std::size(kFields))];
  if (field.at + field.size > bytes.size()) return;
  std::uint64_t value = 0;
  std::memcpy(&value, &bytes[field.at], field.size);
  const std::uint64_t near[] = {value + 1, value - 1, value + random.below(3000), random.below(4),
                                random.next()};
  value = near[random.below(std::size(near))];
  std::memcpy(&bytes[field.at], &value, field.size);
}

/// A copy of `one` with one random change; some changes take bytes from `other`. By chance the copy
/// may equal `one` or `other`.
inline Bytes change(const Bytes& one, const Bytes& other, Random& random) {
  Bytes bytes = one;
  const auto cut = [&](const Bytes& of, std::size_t at) {
    return of.begin() + static_cast<std::ptrdiff_t>(std::min(at, of.size()));
  };
  switch (random.below(8)) {
    case 0:  // one bit, anywhere
      bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1 << random.below(8));
      break;
    case 1:  // some bytes, anywhere
      for (std::uint64_t n = 1 + random.below(6); n > 0; --n)
        bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
      break;
    case 2:  // one bit of the header
      bytes[random.below(std::min(wire::kHeaderBytes, bytes.size()))] ^=
          static_cast<std::byte>(1 << random.below(8));
      break;
    case 3:
      bytes.resize(random.below(bytes.size()));
      break;
    case 4:  // longer by zeros, with which hashes pad their input, or by other bytes
      bytes.resize(bytes.size() + 1 + random.below(64),
                   static_cast<std::byte>(random.below(2) * random.next()));
      break;
    case 5:  // the header of `one`, then the payload of `other`
      bytes.resize(std::min(wire::kHeaderBytes, bytes.size()));
      bytes.insert(bytes.end(), cut(other, wire::kHeaderBytes), other.end());
      break;
    case 6: {  // the beginning of `one`, then the end of `other`
      const std::size_t at = random.below(bytes.size());
      bytes.resize(at);
      bytes.insert(bytes.end(), cut(other, at), other.end());
      break;
    }
    default:
      change_field(bytes, random);
  }
  return bytes;
}

}  // namespace tutti::test
