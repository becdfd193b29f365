// What a rank says of itself, and rank 0 of the aggregators, comes through a bootstrap that anybody
// may have written to.
#include "runtime/greeting.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/aggregation_plan.hpp"

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

/// Values that no count of ours may have: a JSON library would round, wrap, or do worse.
const Json kNoCounts[] = {1.5, 1e300, -1, "1", nullptr, Json::array({1})};

TEST(Greeting, ANumberThatItsMemberDoesNotHoldIsDamage) {
  const Json valid = unpack(runtime::make_greeting({}, 3).encode());
  ASSERT_TRUE(runtime::Greeting::decode(pack(valid)).ok());
  for (const char* member : {"protocol", "process", "subgroups", "chains", "chunk_bytes",
                             "window_bytes", "keep_bytes", "communicator", "first_sequence"}) {
    for (const Json& value : kNoCounts) {
      Json damaged = valid;
      damaged[member] = value;
      const auto decoded = runtime::Greeting::decode(pack(damaged));
      ASSERT_FALSE(decoded.ok()) << member << " " << value;
      EXPECT_NE(decoded.status().message().find(member), std::string::npos)
          << decoded.status().message();
    }
  }
  Json damaged = valid;
  damaged["communicator"] = 65536;
  EXPECT_FALSE(runtime::Greeting::decode(pack(damaged)).ok());
  for (const Json& value : {Json(256), Json(3e9)}) {
    damaged = valid;
    damaged["secret"][5] = value;
    EXPECT_FALSE(runtime::Greeting::decode(pack(damaged)).ok()) << value;
  }
}

TEST(AggregationPlan, ANumberThatItsMemberDoesNotHoldIsDamage) {
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

}  // namespace
}  // namespace tutti::test
