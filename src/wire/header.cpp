#include "wire/header.hpp"

#include <fmt/format.h>

#include <bit>

namespace tutti::wire {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

void encode(const Header& header, std::byte* out) {
  out[0] = static_cast<std::byte>(kVersion << 4 | static_cast<std::uint8_t>(header.kind));
  out[1] = static_cast<std::byte>(header.subgroup);
  const std::uint32_t source = index(header.source);
  std::memcpy(out + 2, &header.communicator, 2);
  std::memcpy(out + kSourceOffset, &source, 4);
  std::memcpy(out + 8, &header.epoch, 4);
  std::memcpy(out + kPsnOffset, &header.psn, 4);
  std::memcpy(out + kCounterOffset, &header.counter, 8);
  std::memcpy(out + kTagOffset, &header.tag, 8);
}

std::optional<Header> decode(std::span<const std::byte> datagram) {
  if (datagram.size() < kHeaderBytes) return std::nullopt;
  const auto first = static_cast<std::uint8_t>(datagram[0]);
  const std::uint8_t kind = first & 0xf;
  if (first >> 4 != kVersion) return std::nullopt;
  if (kind < static_cast<std::uint8_t>(PacketKind::chunk) ||
      kind > static_cast<std::uint8_t>(PacketKind::group_frame)) {
    return std::nullopt;
  }
  Header header;
  header.kind = static_cast<PacketKind>(kind);
  header.subgroup = static_cast<std::uint8_t>(datagram[1]);
  std::uint32_t source = 0;
  std::memcpy(&header.communicator, datagram.data() + 2, 2);
  std::memcpy(&source, datagram.data() + kSourceOffset, 4);
  std::memcpy(&header.epoch, datagram.data() + 8, 4);
  std::memcpy(&header.psn, datagram.data() + kPsnOffset, 4);
  std::memcpy(&header.counter, datagram.data() + kCounterOffset, 8);
  std::memcpy(&header.tag, datagram.data() + kTagOffset, 8);
  header.source = rank_of(source);
  return header;
}

std::string to_string(const Header& header) {
  static constexpr const char* kKinds[] = {"?",       "chunk",      "reliable",   "probe",
                                           "message", "path probe", "group frame"};
  return fmt::format("{} comm {} subgroup {} source {} epoch {} psn {} counter {} tag {:#x}",
                     kKinds[static_cast<std::uint8_t>(header.kind)], header.communicator,
                     header.subgroup, index(header.source), header.epoch, header.psn,
                     header.counter, header.tag);
}

}  // namespace tutti::wire
