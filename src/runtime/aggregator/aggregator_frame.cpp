#include "runtime/aggregator/aggregator_frame.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "base/error.hpp"
#include "runtime/bootstrap/packed_json.hpp"
#include "runtime/bootstrap/packed_number.hpp"
#include "runtime/keys/key_file.hpp"

namespace tutti::runtime {

namespace {

constexpr std::array<std::byte, 4> kMagic{std::byte{'t'}, std::byte{'u'}, std::byte{'a'},
                                          std::byte{'g'}};
constexpr std::byte kVersion{4};
constexpr std::size_t kMaxTextBytes = 512;
constexpr std::int64_t kMinTimeoutNs = 100'000'000;
constexpr std::int64_t kMaxTimeoutNs = 600'000'000'000;

using Json = nlohmann::json;

Bytes pack(const Json& json) {
  const std::vector<std::uint8_t> packed = Json::to_msgpack(json);
  const auto* first = reinterpret_cast<const std::byte*>(packed.data());
  return {first, first + packed.size()};
}

Status damaged(const char* what) {
  return failure(Code::invalid_argument,
                 "the aggregator protocol's join {} is damaged or has another format: use the same "
                 "build of Tutti at the aggregator and on all ranks",
                 what);
}

/// Reads a number from the JSON object and checks its range. Throws if the number is missing or out
/// of range; every caller catches the exception.
std::uint64_t number(const Json& json, const char* name, std::uint64_t low, std::uint64_t high) {
  const auto value = whole<std::uint64_t>(json.at(name), name);
  if (value < low || value > high) throw std::out_of_range(name);
  return value;
}

std::string text(const Json& json, const char* name, std::size_t most) {
  auto value = json.at(name).get<std::string>();
  if (value.size() > most) throw std::out_of_range(name);
  return value;
}

Nanoseconds timeout(const Json& json, const char* name) {
  return Nanoseconds(static_cast<std::int64_t>(number(json, name, kMinTimeoutNs, kMaxTimeoutNs)));
}

std::uint64_t bounded(Nanoseconds timeout) {
  return static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(timeout.count(), kMinTimeoutNs, kMaxTimeoutNs));
}

Result<ServiceKey> checked(std::string key, const std::string& from) {
  const char* blank = " \t\r\n";
  key.erase(0, std::min(key.find_first_not_of(blank), key.size()));
  key.erase(key.find_last_not_of(blank) + 1);
  if (key.size() < kMinServiceKeyBytes || key.size() > kMaxServiceKeyBytes) {
    return failure(Code::invalid_argument,
                   "the aggregator's key in {} has {} bytes: give {} to {} random bytes, as "
                   "`tutti key new FILE` writes them",
                   from, key.size(), kMinServiceKeyBytes, kMaxServiceKeyBytes);
  }
  const auto* first = reinterpret_cast<const std::byte*>(key.data());
  return ServiceKey(first, first + key.size());
}

Result<ServiceKey> key_in_file(const std::string& path) {
  const auto bytes = read_private_file(path, kMaxServiceKeyBytes + 2, kAggregatorKeyFile);
  if (!bytes) return bytes.status();
  return checked({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path);
}

}  // namespace

// ---- frames -------------------------------------------------------------------------------------

Bytes encode_control(ControlKind kind, std::span<const std::byte> payload) {
  Bytes frame(kControlHeaderBytes + payload.size());
  std::copy(kMagic.begin(), kMagic.end(), frame.begin());
  frame[4] = kVersion;
  frame[5] = static_cast<std::byte>(kind);
  const auto size = static_cast<std::uint32_t>(payload.size());
  std::memcpy(frame.data() + 8, &size, 4);
  std::copy(payload.begin(), payload.end(), frame.begin() + kControlHeaderBytes);
  return frame;
}

std::optional<ControlHeader> decode_control_header(std::span<const std::byte> bytes) {
  if (bytes.size() != kControlHeaderBytes) return std::nullopt;
  if (!std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) return std::nullopt;
  const auto kind = std::to_integer<std::uint8_t>(bytes[5]);
  const bool known = kind >= static_cast<std::uint8_t>(ControlKind::request) &&
                     kind <= static_cast<std::uint8_t>(ControlKind::go);
  if (bytes[4] != kVersion || !known || bytes[6] != std::byte{0} || bytes[7] != std::byte{0}) {
    return std::nullopt;
  }
  std::uint32_t size = 0;
  std::memcpy(&size, bytes.data() + 8, 4);
  if (size > kMaxControlPayloadBytes) return std::nullopt;
  return ControlHeader{static_cast<ControlKind>(kind), size};
}

// ---- messages -----------------------------------------------------------------------------------

Bytes encode(const JoinRequest& request) {
  return pack({{"unique_id", request.unique_id},
               {"address", request.address},
               {"job", request.job},
               {"ranks", request.ranks},
               {"ipv6", request.options.ipv6},
               {"authenticate", request.options.authenticate},
               {"multicast_hops", request.options.multicast_hops},
               {"peer_timeout_ns", bounded(request.options.peer_timeout)},
               {"create_timeout_ns", bounded(request.options.create_timeout)}});
}

Result<JoinRequest> decode_join_request(std::span<const std::byte> bytes) {
  const auto unpacked = unpack(bytes);
  if (!unpacked || !unpacked->is_object()) return damaged("request");
  const Json& json = *unpacked;
  JoinRequest request;
  try {
    request.unique_id = text(json, "unique_id", 128);
    request.address = text(json, "address", kMaxTextBytes);
    request.job = text(json, "job", kMaxTextBytes);
    request.ranks =
        static_cast<std::uint32_t>(number(json, "ranks", 1, engine::kMaxInNetworkRanks));
    request.options.ipv6 = json.at("ipv6").get<bool>();
    request.options.authenticate = json.at("authenticate").get<bool>();
    request.options.multicast_hops =
        static_cast<std::uint32_t>(number(json, "multicast_hops", 0, 255));
    request.options.peer_timeout = timeout(json, "peer_timeout_ns");
    request.options.create_timeout = timeout(json, "create_timeout_ns");
  } catch (const std::exception&) {
    return damaged("request");
  }
  return request;
}

Bytes encode(const JoinReply& reply) {
  return pack({{"code", static_cast<std::uint32_t>(reply.status.code())},
               {"message", reply.status.message().substr(0, kMaxTextBytes)},
               {"segment_bytes", reply.terms.segment_bytes},
               {"slots", reply.terms.slots},
               {"pulses", reply.terms.pulses},
               {"group_bytes", reply.terms.group_bytes}});
}

Result<JoinReply> decode_join_reply(std::span<const std::byte> bytes) {
  const auto unpacked = unpack(bytes);
  if (!unpacked || !unpacked->is_object()) return damaged("reply");
  const Json& json = *unpacked;
  JoinReply reply;
  try {
    const auto code = number(json, "code", 0, static_cast<std::uint64_t>(Code::internal));
    if (code != 0) {
      reply.status = Status(static_cast<Code>(code), text(json, "message", kMaxTextBytes));
    }
    const auto field = [&](const char* name) {
      return static_cast<std::uint32_t>(number(json, name, 0, 0xffff'ffffu));
    };
    reply.terms = {.segment_bytes = field("segment_bytes"),
                   .slots = field("slots"),
                   .pulses = field("pulses"),
                   .group_bytes = field("group_bytes")};
  } catch (const std::exception&) {
    return damaged("reply");
  }
  if (!engine::check(reply.terms).ok()) return damaged("reply");
  return reply;
}

// ---- key ----------------------------------------------------------------------------------------

Result<ServiceKey> find_service_key(const std::string& file) {
  if (!file.empty()) return key_in_file(file);
  const char* named = std::getenv("TUTTI_AGGREGATOR_KEY_FILE");
  if (named != nullptr && *named != '\0') return key_in_file(named);
  if (const char* key = std::getenv("TUTTI_AGGREGATOR_KEY")) {
    return checked(key, "TUTTI_AGGREGATOR_KEY");
  }
  return failure(Code::invalid_argument,
                 "the aggregator's key is not given: make a file with `tutti key new FILE`, and "
                 "name it in TUTTI_AGGREGATOR_KEY_FILE at the aggregator and at rank 0");
}

}  // namespace tutti::runtime
