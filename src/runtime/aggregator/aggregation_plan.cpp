#include "runtime/aggregator/aggregation_plan.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "crypto/aead.hpp"
#include "crypto/hash.hpp"
#include "runtime/aggregator/aggregator_connection.hpp"
#include "runtime/aggregator/aggregator_frame.hpp"
#include "runtime/bootstrap/packed_json.hpp"
#include "runtime/bootstrap/packed_number.hpp"
#include "runtime/bootstrap/unique_id.hpp"
#include "runtime/communicator/device_choice.hpp"
#include "runtime/communicator/greeting.hpp"

namespace tutti::runtime {

namespace {

using Json = nlohmann::json;

// Longest time for which rank 0 asks the aggregators, all together.
constexpr Nanoseconds kAskTimeout{5'000'000'000};
constexpr std::string_view kSealLabel = "tutti aggregation plan 1";

std::string text_of(const UniqueId& id) { return {id.data(), id.size() - 1}; }

struct Arranged {
  AggregationPlan::Side side;
  AggregatorConnection connection;
};

Result<Arranged> arrange(const std::string& address, const ServiceKey& key,
                         const CommunicatorOptions& options, std::uint32_t ranks,
                         Deadline deadline) {
  auto connection = AggregatorConnection::open(address, key, deadline);
  if (!connection) return connection.status();
  // The unique id names rank 0 by the local address of its connection to the aggregator. The other
  // ranks must be able to reach this address, too.
  const auto id = make_unique_id(connection->local_host());
  if (!id) return id.status();
  const PeerOptions self = make_greeting(options, 0);
  const auto hops = multicast_hops(options);
  if (!hops) return hops.status();
  JoinRequest request{.unique_id = text_of(*id),
                      .address = address,
                      .job = fmt::format("{}:{}", self.host, self.process),
                      .ranks = ranks,
                      .options = options};
  request.options.multicast_hops = *hops;
  const auto terms = connection->ask(request, deadline);
  if (!terms) {
    discard_unique_id(*id);
    return terms.status();
  }
  return Arranged{{address, request.unique_id, *terms}, std::move(*connection)};
}

void give_up(AggregationPlan& plan, const Status& status) {
  plan.status = status;
  for (const AggregationPlan::Side& side : plan.sides) {
    if (const auto id = parse_unique_id(side.unique_id)) discard_unique_id(*id);
  }
  plan.sides.clear();
}

Status damaged() {
  return failure(Code::invalid_argument,
                 "the aggregation plan is damaged: use one version of Tutti on all ranks");
}

}  // namespace

AggregationPlan make_aggregation_plan(const CommunicatorOptions& options, std::uint32_t ranks) {
  AggregationPlan plan;
  plan.fallback = options.aggregator_fallback;
  const auto key = find_service_key();
  if (!key) {
    plan.status = key.status();
    return plan;
  }
  if (options.aggregators.empty() || options.aggregators.size() > kMaxAggregators ||
      ranks > engine::kMaxInNetworkRanks) {
    plan.status = failure(
        Code::invalid_argument,
        "cannot use {} aggregators for {} ranks: use 1 to {} aggregators, and at most {} ranks",
        options.aggregators.size(), ranks, kMaxAggregators, engine::kMaxInNetworkRanks);
    return plan;
  }
  // The other ranks wait at most create_timeout for the plan, so rank 0 must give up earlier.
  const Deadline deadline = deadline_after(std::min(kAskTimeout, options.create_timeout / 2));
  std::vector<AggregatorConnection> connections;
  for (const std::string& address : options.aggregators) {
    auto arranged = arrange(address, *key, options, ranks, deadline);
    if (!arranged) {
      give_up(plan, arranged.status());
      return plan;
    }
    plan.sides.push_back(std::move(arranged->side));
    connections.push_back(std::move(arranged->connection));
  }
  for (AggregatorConnection& connection : connections) {
    const Status begun = connection.go(deadline);
    if (begun.ok()) continue;
    give_up(plan, begun);
    break;
  }
  return plan;
}

Bytes encode(const AggregationPlan& plan) {
  Json sides = Json::array();
  for (const AggregationPlan::Side& side : plan.sides) {
    sides.push_back({side.address, side.unique_id, side.terms.segment_bytes, side.terms.slots,
                     side.terms.pulses, side.terms.group_bytes});
  }
  const std::vector<std::uint8_t> packed =
      Json::to_msgpack(Json{{"code", static_cast<std::uint32_t>(plan.status.code())},
                            {"message", plan.status.message()},
                            {"fallback", plan.fallback},
                            {"sides", sides}});
  const auto* first = reinterpret_cast<const std::byte*>(packed.data());
  return {first, first + packed.size()};
}

Result<AggregationPlan> decode_aggregation_plan(std::span<const std::byte> bytes) {
  const auto unpacked = unpack(bytes);
  if (!unpacked) {
    return failure(Code::invalid_argument, "the aggregation plan is damaged: {}",
                   unpacked.status().message());
  }
  const Json& json = *unpacked;
  AggregationPlan plan;
  try {
    const auto code = whole<std::uint32_t>(json.at("code"), "code");
    if (code > static_cast<std::uint32_t>(Code::internal)) return damaged();
    if (code != 0) plan.status = Status(static_cast<Code>(code), json.at("message"));
    json.at("fallback").get_to(plan.fallback);
    for (const Json& side : json.at("sides")) {
      plan.sides.push_back(
          {.address = side.at(0),
           .unique_id = side.at(1),
           .terms = {.segment_bytes = whole<std::uint32_t>(side.at(2), "segment_bytes"),
                     .slots = whole<std::uint32_t>(side.at(3), "slots"),
                     .pulses = whole<std::uint32_t>(side.at(4), "pulses"),
                     .group_bytes = whole<std::uint32_t>(side.at(5), "group_bytes")}});
      if (!engine::check(plan.sides.back().terms).ok()) return damaged();
    }
  } catch (const std::exception&) {
    return damaged();
  }
  return plan;
}

Result<Bytes> seal(const AggregationPlan& plan, const crypto::Secret& key) {
  const auto own = crypto::derive(key, kSealLabel);
  if (!own) return own.status();
  return crypto::seal(*own, encode(plan));
}

Result<AggregationPlan> unseal_aggregation_plan(std::span<const std::byte> bytes,
                                                const crypto::Secret& key) {
  if (bytes.size() < crypto::kSealTagBytes) return damaged();
  const auto own = crypto::derive(key, kSealLabel);
  if (!own) return own.status();
  Bytes plain(bytes.size() - crypto::kSealTagBytes);
  if (!crypto::unseal(*own, bytes, plain)) return damaged();
  return decode_aggregation_plan(plain);
}

}  // namespace tutti::runtime
