// Fuzzes the decoder of datagram headers: a decoded header encodes to the same bytes and can be
// printed.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "wire/header.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span input(reinterpret_cast<const std::byte*>(data), size);
  const auto header = tutti::wire::decode(input);
  if (!header) return 0;
  if (size < tutti::wire::kHeaderBytes) std::abort();
  std::array<std::byte, tutti::wire::kHeaderBytes> again{};
  tutti::wire::encode(*header, again.data());
  if (!std::equal(again.begin(), again.end(), input.begin())) std::abort();
  if (tutti::wire::to_string(*header).empty()) std::abort();
  return 0;
}
