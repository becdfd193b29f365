// Tests peer options and the aggregation plan of rank 0, which are decoded from bytes that any
// process may have written.
#include "runtime/communicator/greeting.hpp"
#include "runtime/communicator/create.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "runtime/aggregator/aggregation_plan.hpp"
#include "runtime/aggregator/aggregator_frame.hpp"
#include "runtime/bootstrap/local_bootstrap.hpp"
#include "runtime/bootstrap/packed_json.hpp"
#include "runtime/keys/key_agreement.hpp"
#include "tutti/communicator.hpp"

namespace tutti::test {
namespace {

using Json = nlohmann::json;
using Packed = std::vector<std::byte>;

Json unpack(const Packed& bytes) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return Json::from_msgpack(first, first + bytes.size());
}

Packed pack(const Json& json) {
  const auto packed = Json::to_msgpack(json);
  const auto* first = reinterpret_cast<const std::byte*>(packed.data());
  return {first, first + packed.size()};
}

/// JSON values that a field for a count must refuse. A JSON library would round or wrap some of
/// them.
const Json kNoCounts[] = {1.5, 1e300, -1, "1", nullptr, Json::array({1})};

/// Position in `bytes` of the first byte behind `text`. The encoded numbers begin there.
std::size_t after(const Packed& bytes, const std::string& text) {
  const auto pattern = std::as_bytes(std::span(text));
  const auto found = std::search(bytes.begin(), bytes.end(), pattern.begin(), pattern.end());
  EXPECT_NE(found, bytes.end()) << text;
  return static_cast<std::size_t>(found - bytes.begin()) + text.size();
}

TEST(PeerOptions, NumberOutsideTheRangeOfItsField_isRefused) {
  runtime::PeerOptions greeting = runtime::make_greeting({}, 3);
  greeting.multicast = "a multicast of this test";
  const Packed valid = greeting.encode();
  ASSERT_TRUE(runtime::PeerOptions::decode(valid).ok());
  const std::size_t first = after(valid, greeting.multicast);
  constexpr std::size_t kNumberBytes = 8;
  // Each entry names a field and the offset of one of its bytes. A 1 in this byte makes the field
  // too large: network_wanted is at most 1, process has 32 bits, and communicator has 16.
  const std::pair<const char*, std::size_t> excess[] = {
      {"network_wanted", 1}, {"process", kNumberBytes + 4}, {"communicator", 2 * kNumberBytes + 2}};
  for (const auto& [name, offset] : excess) {
    Packed damaged = valid;
    damaged[first + offset] = std::byte{1};
    const auto decoded = runtime::PeerOptions::decode(damaged);
    ASSERT_FALSE(decoded.ok()) << name;
    EXPECT_NE(decoded.status().message().find(std::string("damaged at the field ") + name),
              std::string::npos)
        << decoded.status().message();
  }
}

TEST(PeerOptions, DamagedBytes_areRefused) {
  const Packed valid = runtime::make_greeting({}, 3).encode();
  for (std::size_t size = 0; size < valid.size(); ++size) {
    EXPECT_FALSE(runtime::PeerOptions::decode(std::span(valid).first(size)).ok()) << size;
  }
  Packed trailing = valid;
  trailing.push_back(std::byte{0});
  EXPECT_FALSE(runtime::PeerOptions::decode(trailing).ok());
  Packed claims_too_much = valid;
  for (std::size_t i = 8; i < 12; ++i) claims_too_much[i] = std::byte{0xff};
  const Status status = runtime::PeerOptions::decode(claims_too_much).status();
  EXPECT_NE(status.message().find("damaged at the field host"), std::string::npos)
      << status.message();
}

TEST(PeerOptions, Greeting_carriesNoJobKey) {
  CommunicatorOptions options;
  options.job_key.emplace();
  const runtime::PeerOptions greeting = runtime::make_greeting(options, 3);
  EXPECT_FALSE(greeting.options.job_key.has_value());
  EXPECT_EQ(greeting.encode(), runtime::make_greeting({}, 3).encode());
}

TEST(AggregationPlan, NumberOutsideTheRangeOfItsField_isRefused) {
  runtime::AggregationPlan plan;
  plan.sides.push_back({.address = "10.0.0.1:7600", .unique_id = "id", .terms = {}});
  const Json valid = unpack(encode(plan));
  ASSERT_TRUE(runtime::decode_aggregation_plan(pack(valid)).ok());
  for (const Json& value : kNoCounts) {
    Json damaged = valid;
    damaged["code"] = value;
    EXPECT_FALSE(runtime::decode_aggregation_plan(pack(damaged)).ok()) << value;
    for (std::size_t term = 2; term < valid["sides"][0].size(); ++term) {
      damaged = valid;
      damaged["sides"][0][term] = value;
      EXPECT_FALSE(runtime::decode_aggregation_plan(pack(damaged)).ok()) << term << " " << value;
    }
  }
}

TEST(AggregationPlan, SealedPlan_opensOnlyWithItsKey_andOnlyIfItIsComplete) {
  runtime::AggregationPlan plan;
  plan.sides.push_back({.address = "10.0.0.1:7600", .unique_id = "the unique id", .terms = {}});
  const auto key = crypto::Secret::random();
  const auto sealed = seal(plan, *key);
  ASSERT_TRUE(sealed.ok());
  const std::string_view text(reinterpret_cast<const char*>(sealed->data()), sealed->size());
  EXPECT_EQ(text.find("the unique id"), text.npos);
  const auto opened = runtime::unseal_aggregation_plan(*sealed, *key);
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  EXPECT_EQ(opened->sides.at(0).unique_id, "the unique id");
  EXPECT_FALSE(runtime::unseal_aggregation_plan(*sealed, crypto::Secret()).ok());
  for (const std::size_t size : {std::size_t{0}, std::size_t{15}, sealed->size() - 1}) {
    EXPECT_FALSE(runtime::unseal_aggregation_plan(std::span(*sealed).first(size), *key).ok());
  }
}

Packed packed_text(std::size_t size) { return pack(Json(std::string(size, 'x'))); }

/// Arrays nested `levels` deep, each the only element of the next outer one.
Packed nested_arrays(std::size_t levels) {
  Packed bytes(levels, std::byte{0x91});
  bytes.push_back(std::byte{0xc0});
  return bytes;
}

/// Objects nested `levels` deep, each the only member ("a") of the next outer one.
Packed nested_objects(std::size_t levels) {
  Packed bytes;
  for (std::size_t level = 0; level < levels; ++level) {
    for (const int byte : {0x81, 0xa1, 0x61}) bytes.push_back(static_cast<std::byte>(byte));
  }
  bytes.push_back(std::byte{0xc0});
  return bytes;
}

void expect_refused_by_all_decoders(const Packed& bytes, const std::string& why) {
  for (const Status& status :
       {runtime::unpack(bytes).status(), runtime::decode_aggregation_plan(bytes).status()}) {
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
  }
  EXPECT_FALSE(runtime::PeerOptions::decode(bytes).ok());
  EXPECT_FALSE(runtime::decode_join_request(bytes).ok());
  EXPECT_FALSE(runtime::decode_join_reply(bytes).ok());
}

TEST(PackedJson, NestedContainers_beyondDepthLimit_areRefused) {
  const std::string why = "nests deeper than 4 levels";
  for (const std::size_t levels : {std::size_t{5}, std::size_t{20'000}}) {
    expect_refused_by_all_decoders(nested_arrays(levels), why);
    expect_refused_by_all_decoders(nested_objects(levels), why);
  }
  expect_refused_by_all_decoders(nested_arrays(runtime::kMaxPackedBytes - 1), why);
  expect_refused_by_all_decoders(nested_arrays(200'000), "the msgpack record has 200001 bytes");
  expect_refused_by_all_decoders(nested_objects(200'000), "the msgpack record has 600001 bytes");
}

TEST(PackedJson, NestedContainers_atDepthLimit_decode) {
  EXPECT_EQ(runtime::unpack(nested_arrays(4)).value(), Json::parse("[[[[null]]]]"));
  EXPECT_EQ(runtime::unpack(nested_objects(4)).value(),
            Json::parse(R"({"a": {"a": {"a": {"a": null}}}})"));
  const Json siblings = Json::parse("[[[1], [2]], [[3]], {}, [[[4]]]]");
  EXPECT_EQ(runtime::unpack(pack(siblings)).value(), siblings);
}

TEST(PackedJson, Size_beyondLimit_isRefused) {
  constexpr std::size_t kTextHeaderBytes = 3;
  constexpr std::size_t kLongest = 0xffff;
  static_assert(runtime::kMaxPackedBytes == kLongest + 1);
  const Packed at_limit = pack(Json::array({std::string(kLongest - kTextHeaderBytes, 'x')}));
  ASSERT_EQ(at_limit.size(), runtime::kMaxPackedBytes);
  EXPECT_TRUE(runtime::unpack(at_limit).ok());
  const Packed beyond = pack(Json::array({std::string(kLongest - kTextHeaderBytes + 1, 'x')}));
  expect_refused_by_all_decoders(beyond, "has 65537 bytes: at most 65536 are allowed");
}

TEST(PackedJson, DamagedBytes_areRefused) {
  const std::string why = "the record of the peer is not valid msgpack";
  Packed trailing = packed_text(5);
  trailing.push_back(std::byte{0xc0});
  expect_refused_by_all_decoders(trailing, why);
  expect_refused_by_all_decoders({}, why);
  const Packed claims_too_much{std::byte{0xdd}, std::byte{0xff}, std::byte{0xff},
                               std::byte{0xff}, std::byte{0xff}, std::byte{0xc0}};
  expect_refused_by_all_decoders(claims_too_much, why);
}

TEST(PeerOptions, LongestLegitimateFields_decode) {
  runtime::PeerOptions greeting = runtime::make_greeting({}, 3, std::string(32 * 1024, 'a'));
  for (int core = 0; core < 1024; ++core) greeting.processors += ":" + std::to_string(core);
  greeting.trace_error = std::string(4096, 'p');
  const auto decoded = runtime::PeerOptions::decode(greeting.encode());
  ASSERT_TRUE(decoded.ok()) << decoded.status().to_string();
  EXPECT_EQ(decoded->processors, greeting.processors);
  EXPECT_EQ(decoded->algorithms, greeting.algorithms);
}

TEST(PeerOptions, OptionThatMustAgree_ifItDiffersAtOneRank_isNamedInTheError) {
  using Change = void (*)(CommunicatorOptions&);
  const std::pair<const char*, Change> changes[] = {
      {"subgroups", [](CommunicatorOptions& one) { one.subgroups = 2; }},
      {"chains", [](CommunicatorOptions& one) { one.chains = 2; }},
      {"chunk_bytes", [](CommunicatorOptions& one) { one.chunk_bytes = 1024; }},
      {"window_bytes", [](CommunicatorOptions& one) { one.window_bytes = 1u << 20; }},
      {"retain_bytes", [](CommunicatorOptions& one) { one.retain_bytes = 1024; }},
      {"ipv6", [](CommunicatorOptions& one) { one.ipv6 = true; }},
      {"authenticate", [](CommunicatorOptions& one) { one.authenticate = false; }},
      {"always_barrier", [](CommunicatorOptions& one) { one.always_barrier = true; }},
      {"multicast_hops", [](CommunicatorOptions& one) { one.multicast_hops = 2; }},
      {"require_multicast", [](CommunicatorOptions& one) { one.require_multicast = true; }}};
  const runtime::PeerOptions usual = runtime::make_greeting({}, 3);
  EXPECT_TRUE(runtime::check_agreement({usual, usual}).ok());
  for (const auto& [name, change] : changes) {
    CommunicatorOptions options;
    change(options);
    const auto other = runtime::PeerOptions::decode(runtime::make_greeting(options, 3).encode());
    ASSERT_TRUE(other.ok()) << other.status().to_string();
    const Status status = runtime::check_agreement({usual, usual, *other});
    EXPECT_EQ(status.code(), Code::invalid_argument) << name;
    EXPECT_EQ(status.message().find(std::string("the ranks disagree on ") + name + ": "), 0u)
        << status.message();
    EXPECT_NE(status.message().find("at rank 2"), std::string::npos) << status.message();
  }
}

TEST(PeerOptions, HostileBytesOfAPeer_failTheCreation_andThePeerIsNamedInTheError) {
  auto bootstraps = runtime::make_local_bootstraps(2);
  std::thread hostile([&] {
    auto keys = runtime::KeyAgreement::begin(rank_of(1), 2, nullptr);
    const auto bytes = keys->first(nested_arrays(60'000));
    EXPECT_TRUE(bootstraps[1]->allgather(*bytes, std::chrono::seconds(60)).ok());
  });
  const auto created = runtime::create_communicator(*bootstraps[0], {});
  hostile.join();
  ASSERT_FALSE(created.ok());
  EXPECT_EQ(created.status().message(),
            "cannot use the options of rank 1: the received options are not from this version of "
            "Tutti: use the "
            "same build of Tutti on all ranks");
}

TEST(PeerOptions, ThreadBoundToOneCore_countsThisCoreOnly) {
  std::thread([] {
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
    EXPECT_EQ(runtime::allowed_core_count(), static_cast<std::uint32_t>(CPU_COUNT(&allowed)));
    const std::string unbound = runtime::make_greeting({}, 1).processors;
    const bool several = CPU_COUNT(&allowed) > 1;
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    CPU_ZERO(&allowed);
    CPU_SET(first, &allowed);
    ASSERT_EQ(::sched_setaffinity(0, sizeof allowed, &allowed), 0);
    EXPECT_EQ(runtime::allowed_core_count(), 1u);
    const std::string bound = runtime::make_greeting({}, 1).processors;
    EXPECT_TRUE(bound.ends_with(":" + std::to_string(first))) << bound;
    EXPECT_TRUE(unbound.starts_with(bound)) << unbound;
    EXPECT_EQ(bound != unbound, several);
  }).join();
}

}  // namespace
}  // namespace tutti::test
