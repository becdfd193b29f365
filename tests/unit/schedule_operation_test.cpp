// Tests what a schedule's operation does with messages that no correct rank sends: a message or a
// clear-to-send that repeats an earlier one; and that it does not wait for a peer that has closed.
#include "engine/schedule/schedule_operation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "fuzz/scripted_endpoint.hpp"
#include "protocol/codec/data_message.hpp"
#include "protocol/codec/message.hpp"
#include "schedule/text.hpp"

namespace tutti::engine {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Instant kNow{1'000'000};
constexpr std::size_t kBlockBytes = 2'000;
constexpr std::size_t kLongBytes = 20'000;  ///< longer than the eager limit

/// Counts the additions to counters of peers.
class CountingEndpoint final : public fuzz::ScriptedEndpoint {
 public:
  Status post(Instant now, const device::WorkRequest& request) override {
    if (request.opcode == device::Opcode::fetch_add) ++additions;
    return ScriptedEndpoint::post(now, request);
  }
  int additions = 0;
};

Bytes data_message(std::uint32_t epoch, std::uint32_t slot, std::span<const std::byte> payload) {
  Bytes bytes(protocol::kDataHeaderBytes);
  protocol::encode_data_header(epoch, slot, bytes.data());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

/// Rank 1 of two; the test sends the messages of rank 0.
class ScheduleOperationTest : public testing::Test {
 protected:
  explicit ScheduleOperationTest(const Settings& settings = {})
      : context_(Rank{1}, 2, settings, std::move(owned_),
                 std::vector<std::string>{"rank 0", "rank 1"}) {}

  /// Begins a call of a schedule, whose tasks are given as text, and returns its completion.
  std::shared_ptr<Completion> begin(const std::string& collective, const std::string& algorithm,
                                    const std::string& tasks, std::span<std::byte> receive) {
    auto parsed = schedule::parse_schedule(
        "tutti-schedule 1\ncollective " + collective + "\nalgorithm " + algorithm +
        "\nranks 2 rank 1 root 0\n"
        "parameters ports=1 radix=2 segments=1 chains=1 ready=0 handshake=0\n"
        "scratch 0\nqueue 0 free\n" +
        tasks + "end\n");
    EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
    if (!parsed) return nullptr;
    auto operation = ScheduleOperation::create(
        {.description = {"collective", "algorithm"},
         .schedule = std::make_shared<const schedule::Schedule>(std::move(*parsed)),
         .shape = schedule::Shape::uniform(receive.size()),
         .send = {},
         .receive = receive,
         .reduction = std::nullopt},
        std::make_shared<WorkspacePool>());
    EXPECT_TRUE(operation.ok()) << operation.status().to_string();
    if (!operation) return nullptr;
    auto completion = (*operation)->completion();
    context_.operations().submit(std::move(*operation));
    context_.poll(kNow);
    return completion;
  }
  void deliver(std::uint32_t epoch, std::uint32_t slot, std::span<const std::byte> payload) {
    endpoint_->deliver(Rank{0}, data_message(epoch, slot, payload));
    for (int polls = 0; polls < 3; ++polls) context_.poll(kNow);
  }
  /// Rank 0 closes its communicator after it has begun one collective.
  void close_peer() {
    Bytes bytes(protocol::kMaxMessageBytes);
    bytes.resize(
        protocol::encode({.kind = protocol::MessageKind::closing, .argument = 2}, bytes.data()));
    endpoint_->deliver(Rank{0}, bytes);
    for (int polls = 0; polls < 3; ++polls) context_.poll(kNow);
  }
  void expect_failure_once_the_peer_closes(const std::shared_ptr<Completion>& call) {
    ASSERT_NE(call, nullptr);
    EXPECT_FALSE(call->done) << "the call must wait for rank 0";
    close_peer();
    ASSERT_TRUE(call->done);
    EXPECT_EQ(call->status.code(), Code::peer_failed) << call->status.to_string();
    ASSERT_EQ(call->status.ranks().size(), 1u) << call->status.to_string();
    EXPECT_EQ(call->status.ranks()[0], Rank{0});
    EXPECT_NE(call->status.message().find("has closed its communicator without taking part"),
              std::string::npos)
        << call->status.to_string();
  }
  std::uint64_t rejected() { return context_.counters().messages_rejected; }

  std::unique_ptr<CountingEndpoint> owned_ = std::make_unique<CountingEndpoint>();
  CountingEndpoint* endpoint_ = owned_.get();
  CommunicatorContext context_;
};

class ReadyBarrierFirst : public ScheduleOperationTest {
 protected:
  ReadyBarrierFirst() : ScheduleOperationTest(always_barrier()) {}

 private:
  static Settings always_barrier() {
    Settings settings;
    settings.always_barrier = true;
    return settings;
  }
};

TEST_F(ScheduleOperationTest, SecondMessageForASlot_getsNoPlaceInTheCallersBuffer) {
  Bytes buffer(kBlockBytes);
  const auto call =
      begin("broadcast", "linear", "task 0 recv from 0 slot 0 into receive[0]\n", buffer);
  ASSERT_NE(call, nullptr);
  const Bytes message = data_message(1, 0, Bytes(kBlockBytes));
  const auto offer = [&] {
    return context_.router().match(Rank{0}, std::span(message).first(100), message.size());
  };
  const auto first = offer();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->memory.data(), buffer.data());
  EXPECT_FALSE(offer().has_value()) << "the first message is whole, but not yet taken";
  const std::array<device::Completion, 1> matched{{{
      .opcode = device::Opcode::matched,
      .peer = Rank{0},
      .work_id = first->token,
  }}};
  context_.router().take(kNow, matched);
  context_.poll(kNow);
  ASSERT_TRUE(call->done);
  EXPECT_EQ(rejected(), 0u);
  deliver(1, 0, Bytes(kBlockBytes));
  EXPECT_EQ(rejected(), 1u) << "the second message must be rejected";
}

TEST_F(ScheduleOperationTest, SecondKeyOfACounter_isRejected_andAddsNothing) {
  const std::string tasks =
      "task 0 round 1 recv from 0 slot 0 into -\ntask 1 signal to 0 slot 0 counted\n";
  const auto key = protocol::encode(protocol::ClearToSend{.key = 7});
  const auto first = begin("barrier", "counter", tasks, {});
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(endpoint_->additions, 0) << "the key is not known yet";
  deliver(1, schedule::kCtsSlots, key);
  EXPECT_EQ(endpoint_->additions, 1);
  deliver(1, 0, {});
  ASSERT_TRUE(first->done);
  const auto second = begin("barrier", "counter", tasks, {});
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(endpoint_->additions, 2) << "the key of the first call is still valid";
  EXPECT_FALSE(context_.failures().noted());
  deliver(2, schedule::kCtsSlots, key);
  EXPECT_EQ(endpoint_->additions, 2);
  EXPECT_EQ(rejected(), 1u);
  EXPECT_NE(context_.failures().status().message().find("a clear-to-send that matches no message"),
            std::string::npos)
      << context_.failures().status().to_string();
}

// ---- a peer that has begun another collective instead, and has closed ---------------------------

TEST_F(ScheduleOperationTest, MessageOfAClosedPeer_thatHasNotArrived_failsTheCall) {
  Bytes buffer(kBlockBytes);
  const auto call =
      begin("broadcast", "linear", "task 0 recv from 0 slot 0 into receive[0]\n", buffer);
  expect_failure_once_the_peer_closes(call);
}

TEST_F(ScheduleOperationTest, ClearToSendOfAClosedPeer_thatHasNotArrived_failsTheCall) {
  Bytes buffer(kLongBytes);
  const auto call =
      begin("broadcast", "linear", "task 0 send to 0 slot 0 from receive[0]\n", buffer);
  expect_failure_once_the_peer_closes(call);
}

TEST_F(ScheduleOperationTest, AdditionOfAClosedPeer_thatIsMissing_failsTheCall) {
  const auto call =
      begin("barrier", "counter",
            "task 0 wait_keys 0:0 counted into -\ntask 1 round 1 signal to 0 slot 0 after 0\n", {});
  expect_failure_once_the_peer_closes(call);
}

TEST_F(ReadyBarrierFirst, BarrierMessageOfAClosedPeer_thatHasNotArrived_failsTheCall) {
  Bytes buffer(kBlockBytes);
  const auto call =
      begin("broadcast", "linear", "task 0 send to 0 slot 0 from receive[0]\n", buffer);
  EXPECT_EQ(context_.counters().ready_by_barrier, 1u);
  expect_failure_once_the_peer_closes(call);
}

TEST_F(ScheduleOperationTest, PeerThatHasSentEverythingBeforeItClosed_failsNoCall) {
  deliver(1, 0, Bytes(kBlockBytes));
  close_peer();
  Bytes buffer(kBlockBytes);
  const auto call =
      begin("broadcast", "linear", "task 0 recv from 0 slot 0 into receive[0]\n", buffer);
  ASSERT_NE(call, nullptr);
  context_.poll(kNow);
  ASSERT_TRUE(call->done);
  EXPECT_TRUE(call->status.ok()) << call->status.to_string();
}

}  // namespace
}  // namespace tutti::engine
