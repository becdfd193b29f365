// Fuzzes the decoder of the addresses that ranks exchange: an address decodes or is refused.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "device/ip/socket.hpp"
#include "runtime/bootstrap/store/socket.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_binary(std::span<const std::byte> bytes) {
  const auto address = tutti::device::ip::SocketAddress::decode(bytes);
  if (!address.ok()) return;
  require(address->family() == AF_INET || address->family() == AF_INET6);
  require(!address->to_string().empty());
  const std::vector<std::byte> again = address->encode();
  require(std::vector<std::byte>(bytes.begin(), bytes.end()) == again);
}

void check_text(std::string_view text) {
  const auto endpoint = tutti::runtime::parse_endpoint(text);
  if (!endpoint.ok()) return;
  require(endpoint->port != 0 && !endpoint->host.empty());
  const auto again = tutti::runtime::parse_endpoint(to_string(*endpoint));
  require(again.ok() && again->host == endpoint->host && again->port == endpoint->port);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_binary(std::as_bytes(std::span(data, size)));
  check_text({reinterpret_cast<const char*>(data), size});
  return 0;
}
