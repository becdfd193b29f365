// Fuzzes the decoder of an endpoint's address, which arrives through the bootstrap. Any input is
// refused, or decodes to values that are within the limits and encode to the same bytes.
#include "device/ip/address_record.hpp"

#include <algorithm>

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti::device::ip;  // NOLINT: no other file includes this source file
  using tutti::fuzz::require;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto record = decode_address_record(bytes);
  if (!record.ok()) {
    require(!record.status().message().empty());
    return 0;
  }
  require(record->chunk_bytes >= kChunkGranule && record->chunk_bytes <= kMaxUdpPayload);
  require(record->datagram_bytes >= kChunkGranule && record->datagram_bytes <= kMaxUdpPayload);
  require(record->receive_window_bytes >= kChunkGranule);
  require(record->multicast == Multicast::ud || record->multicast == Multicast::uc);
  require(record->socket.family() == AF_INET || record->socket.family() == AF_INET6);
  const auto again = encode(*record);
  require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  return 0;
}
