// Fuzzes the decoder of tagged messages. A decoded message does not extend beyond the received
// bytes and encodes to the same bytes.
#include "protocol/codec/tagged_message.hpp"

#include <algorithm>
#include <array>

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::protocol;  // NOLINT: no other file includes this source file
  using tutti::fuzz::require;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto message = decode_tagged(bytes);
  if (!message) return 0;
  require(is_tagged_message(bytes));
  std::array<std::byte, kMaxTaggedHeaderBytes> header{};
  const std::size_t length = encode_tagged(*message, header);
  require(std::equal(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(length),
                     bytes.begin()));
  require(message->payload.size() == size - length);
  require(message->payload.empty() || message->payload.data() == bytes.data() + length);
  return 0;
}
