// Tests collectives that start together.
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "communicator_ranks.hpp"

namespace tutti {
namespace {

using namespace test;

/// A long Allgather by multicast, a short Allgather and a Broadcast, with the buffers that they
/// use.
class Calls {
 public:
  explicit Calls(const Communicator& communicator)
      : rank_(index(communicator.rank())),
        own_(pattern(kLongBytes, rank_)),
        all_(kLongBytes * communicator.size()),
        short_all_(8 * communicator.size()),
        news_(rank_ == 1 ? pattern(kLongBytes, 9) : Bytes(kLongBytes)) {}

  std::vector<CollectiveCall> list() {
    return {{.collective = Collective::allgather,
             .send = own_,
             .receive = all_,
             .options = {.algorithm = Algorithm::multicast}},
            {.collective = Collective::allgather,
             .send = std::span(own_).first(8),
             .receive = short_all_},
            {.collective = Collective::broadcast, .receive = news_, .root = rank_of(1)}};
  }
  void expect_results() const {
    for (std::size_t r = 0; r < all_.size() / kLongBytes; ++r) {
      const Bytes expected = pattern(kLongBytes, r);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all_.begin() + r * kLongBytes));
      EXPECT_TRUE(std::equal(expected.begin(), expected.begin() + 8, short_all_.begin() + 8 * r));
    }
    EXPECT_EQ(news_, pattern(kLongBytes, 9));
  }

 private:
  static constexpr std::size_t kLongBytes = 50'001;

  std::uint32_t rank_;
  Bytes own_, all_, short_all_, news_;
};

TEST(StartAll, CallsStartedTogether_beginInTheirOrder_andComplete) {
  on_ranks(3, patient(), [](Communicator& communicator) {
    Calls calls(communicator);
    const Counters before = counters_of(communicator);
    std::array<Request, 3> requests;
    const Status started = start_all(communicator, calls.list(), requests);
    ASSERT_TRUE(started.ok()) << started.to_string();
    const Status ended = Request::wait_all(requests, kLong);
    EXPECT_TRUE(ended.ok()) << ended.to_string();
    calls.expect_results();
    EXPECT_EQ(grown(before, counters_of(communicator), "collectives_completed"), 3u);
    std::vector<std::string> begun;
    const auto record = nlohmann::json::parse(communicator.flight_record());
    for (const auto& one : record.at("collectives")) {
      begun.push_back(one.at("operation"));
    }
    ASSERT_GE(begun.size(), 3u);
    const std::vector<std::string> in_order{"allgather", "allgather", "broadcast"};
    EXPECT_EQ(std::vector<std::string>(begun.end() - 3, begun.end()), in_order);
    finish(communicator.barrier());
  });
}

TEST(StartAll, ListWithAWrongCall_startsNoCall_andTheErrorNamesTheWrongCall) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    Calls calls(communicator);
    std::vector<CollectiveCall> list = calls.list();
    list[2].root = rank_of(7);
    const Counters before = counters_of(communicator);
    std::array<Request, 3> requests;
    const Status refused = start_all(communicator, list, requests);
    EXPECT_EQ(refused.code(), Code::invalid_argument);
    EXPECT_NE(refused.message().find("call 2: broadcast: root 7"), std::string::npos)
        << refused.to_string();
    for (const Request& one : requests) EXPECT_TRUE(one.empty());
    EXPECT_EQ(grown(before, counters_of(communicator), "collectives_started"), 0u);
    finish(communicator.barrier());
  });
}

TEST(StartAll, UnequalNumbersOfCallsAndRequests_areRefused) {
  on_ranks(1, patient(), [](Communicator& communicator) {
    Calls calls(communicator);
    std::array<Request, 2> requests;
    const Status refused = start_all(communicator, calls.list(), requests);
    EXPECT_EQ(refused.code(), Code::invalid_argument);
    EXPECT_NE(refused.message().find("3 calls and 2 requests"), std::string::npos);
    EXPECT_TRUE(start_all(communicator, {}, {}).ok());
  });
}

}  // namespace
}  // namespace tutti
