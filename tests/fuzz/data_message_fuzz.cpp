// Fuzzes the decoders of a schedule's data messages, CTS messages and ready-to-sends. A decoded
// message does not extend beyond the received bytes and encodes to the same bytes.
#include "protocol/codec/data_message.hpp"

#include <algorithm>
#include <array>

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::protocol;  // NOLINT: no other file includes this source file
  using tutti::fuzz::require;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto message = decode_data(bytes)) {
    require(is_data_message(bytes));
    std::array<std::byte, kDataHeaderBytes> header{};
    encode_data_header(message->epoch, message->slot, header.data());
    require(std::equal(header.begin(), header.end(), bytes.begin()));
    require(message->payload.data() == bytes.data() + kDataHeaderBytes);
    require(message->payload.size() == size - kDataHeaderBytes);
  }
  if (const auto clear = decode_clear_to_send(bytes)) {
    const auto again = encode(*clear);
    require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  } else {
    require(size != kClearToSendBytes);
  }
  if (const auto ready = decode_ready_to_send(bytes)) {
    const auto again = encode(*ready);
    require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  } else {
    require(size != kReadyToSendBytes);
  }
  return 0;
}
