// Fuzzes the decoder of protocol messages. The fields of a decoded message are within their limits,
// and the message encodes to the same bytes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "protocol/codec/message.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span input(reinterpret_cast<const std::byte*>(data), size);
  const auto message = tutti::protocol::decode(input);
  if (!message) return 0;
  for (const tutti::Range range : message->range_list()) {
    if (range.empty()) std::abort();
  }
  std::array<std::byte, tutti::protocol::kMaxMessageBytes> again{};
  if (tutti::protocol::encode(*message, again.data()) != size) std::abort();
  // The second byte of a message is reserved: the encoder writes zero, and the decoder ignores it.
  again[1] = input[1];
  if (!std::equal(input.begin(), input.end(), again.begin())) std::abort();
  if (tutti::protocol::to_string(message->kind) == nullptr) std::abort();
  return 0;
}
