// Fuzzes the decoder of peer options, which arrive through a bootstrap that may contain forged
// bytes. Any input is refused or decodes. Decoded options must agree (check_agreement()) with a
// copy that was encoded and decoded again. Compared with default options, they must agree or be
// refused as an invalid argument.
#include "runtime/communicator/greeting.hpp"

#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

namespace {

using namespace tutti;           // NOLINT: no other file includes this source file
using namespace tutti::runtime;  // NOLINT

void require(bool holds) {
  if (!holds) std::abort();
}

void check(std::span<const std::byte> bytes) {
  const auto decoded = PeerOptions::decode(bytes);
  if (!decoded.ok()) {
    require(!decoded.status().message().empty());
    return;
  }
  const auto again = PeerOptions::decode(decoded->encode());
  require(again.ok() && again->host == decoded->host);
  require(check_agreement({*decoded, *again}).ok());
  const Status other = check_agreement({make_greeting({}, 0), *decoded});
  require(other.ok() || other.code() == Code::invalid_argument);
}

/// Checks valid peer options of which the input overwrites some bytes, because purely random bytes
/// rarely pass the first checks. Two bytes of the input give a position, and the third one gives
/// the new value.
void check_damaged(std::span<const std::byte> input) {
  static const std::vector<std::byte> valid = make_greeting({}, 3).encode();
  std::vector<std::byte> damaged = valid;
  for (std::size_t i = 0; i + 2 < input.size(); i += 3) {
    const auto at =
        std::to_integer<std::size_t>(input[i]) * 256 + std::to_integer<std::size_t>(input[i + 1]);
    damaged[at % damaged.size()] = input[i + 2];
  }
  if (input.size() % 3 == 1) damaged.resize(std::to_integer<std::size_t>(input.back()));
  check(damaged);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check(bytes);
  check_damaged(bytes);
  return 0;
}
