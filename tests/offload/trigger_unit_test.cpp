// Tests each flag of a descriptor, packet by packet.
#include "trigger/trigger_unit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "process/failing_allocation.hpp"
#include "trigger/build/sequence_builder.hpp"
#include "trigger/unit_bank.hpp"

namespace tutti::trigger {
namespace {

using reduction::ElementType;
using reduction::Operation;

constexpr auto kJob = static_cast<JobId>(5);
constexpr auto kSelf = static_cast<NodeId>(1);
constexpr auto kLeft = static_cast<NodeId>(2);
constexpr auto kRight = static_cast<NodeId>(3);
constexpr auto kPort = static_cast<Port>(4);
constexpr auto kRemote = static_cast<Address>(0x1234);
using Delivered = UnitBank::Delivered;

UnitBank::Settings settings() {
  UnitBank::Settings settings;
  settings.node = kSelf;
  settings.ports = 16;
  settings.unit = {
      .buffer_bytes = 64 * 256, .slot_bytes = 256, .sequences = 4, .outbox_packets = 2};
  return settings;
}

std::vector<std::byte> floats(std::initializer_list<float> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

/// A node to which the test delivers packets.
class TriggerUnitTest : public testing::Test {
 protected:
  SequenceBuilder builder() const { return {kJob, kPort, kSelf}; }
  Status post(SequenceBuilder& sequence) { return bank_.post(sequence.finish(), now_); }

  static PacketHeader header_of(NodeId from, std::uint32_t step, std::size_t size_bytes,
                                Port port = kPort) {
    PacketHeader header;
    header.key = {kJob, from, port, static_cast<SequenceId>(step)};
    header.destination = kSelf;
    header.destination_port = kPort;
    header.payload_bytes = static_cast<std::uint32_t>(size_bytes);
    return header;
  }
  Delivered deliver(NodeId from, std::uint32_t step, const std::vector<std::byte>& payload = {}) {
    return bank_.deliver(header_of(from, step, payload.size()), payload);
  }
  /// Runs the units and takes the packets that they send.
  std::vector<std::pair<PacketHeader, std::vector<std::byte>>> sent() {
    std::vector<std::pair<PacketHeader, std::vector<std::byte>>> packets;
    bank_.poll(now_);
    while (PacketOutbox* outbox = bank_.next_outbox()) {
      const OutgoingPacket& packet = outbox->front();
      packets.emplace_back(packet.header,
                           std::vector(packet.payload.begin(), packet.payload.end()));
      outbox->pop();
      bank_.poll(now_);
    }
    return packets;
  }
  /// The status of the next completion, or an error if there is none.
  Status completed() {
    bank_.poll(now_);
    if (bank_.completions().empty()) return Status(Code::internal, "no sequence has completed");
    const Completion completion = bank_.completions().front();
    bank_.completions().pop();
    EXPECT_EQ(completion.job, kJob);
    EXPECT_EQ(completion.port, kPort);
    return completion.status;
  }
  bool nothing_completed() {
    bank_.poll(now_);
    return bank_.completions().empty();
  }

  Instant now_;
  UnitBank bank_{settings()};
};

TEST_F(TriggerUnitTest, Descriptor_firesWhenAllItsPacketsArrived_inAnyOrder) {
  std::vector<int> order = {0, 1, 2};
  do {
    auto sequence = builder();
    std::vector<std::byte> own = floats({0});
    std::vector<std::byte> result(4);
    const Address from = bank_.add_memory(kJob, own).value();
    const Address into = bank_.add_memory(kJob, result).value();
    // The sum is (1e8 + -1e8) + 1; any other order of the operands gives 0.
    sequence.reduce(Operation::sum, ElementType::float32, from, into, 4, kNoLocalOperand);
    sequence.name(kRight, 7).name(kLeft, 3).name(kRight, 2);
    sequence.end();
    ASSERT_TRUE(post(sequence).ok());
    for (const int which : order) {
      ASSERT_TRUE(nothing_completed());
      if (which == 0) {
        ASSERT_EQ(deliver(kRight, 7, floats({1e8f})), Delivered::accepted);
      }
      if (which == 1) {
        ASSERT_EQ(deliver(kLeft, 3, floats({-1e8f})), Delivered::accepted);
      }
      if (which == 2) {
        ASSERT_EQ(deliver(kRight, 2, floats({1.0f})), Delivered::accepted);
      }
    }
    ASSERT_TRUE(completed().ok());
    EXPECT_EQ(result, floats({1.0f}));
    EXPECT_EQ(bank_.close_job(kJob), 0u);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(TriggerUnitTest, OwnData_isCombinedAtThePositionThatTheDescriptorNames) {
  for (std::uint8_t position = 0; position <= 2; ++position) {
    std::vector<std::byte> own = floats({1.0f});
    std::vector<std::byte> result(4);
    auto sequence = builder();
    sequence.reduce(Operation::sum, ElementType::float32, bank_.add_memory(kJob, own).value(),
                    bank_.add_memory(kJob, result).value(), 4, position);
    sequence.name(kLeft, 0).name(kRight, 0);
    sequence.end();
    ASSERT_TRUE(post(sequence).ok());
    deliver(kRight, 0, floats({-1e8f}));
    deliver(kLeft, 0, floats({1e8f}));
    ASSERT_TRUE(completed().ok());
    EXPECT_EQ(result, floats({position == 2 ? 1.0f : 0.0f})) << "position " << +position;
    bank_.close_job(kJob);
  }
}

TEST_F(TriggerUnitTest, DescriptorsOfASequence_fireInOrder) {
  auto sequence = builder();
  sequence.wait(kLeft, 1);
  sequence.signal(kRight, 2);
  sequence.wait(kLeft, 0);
  sequence.end();
  ASSERT_TRUE(post(sequence).ok());
  deliver(kLeft, 0);
  EXPECT_TRUE(sent().empty()) << "the packet for step 0 must not fire step 1";
  deliver(kLeft, 1);
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].first.key, (PacketKey{kJob, kSelf, kPort, static_cast<SequenceId>(2)}));
  EXPECT_EQ(packets[0].first.destination, kRight);
  EXPECT_TRUE(completed().ok());
}

TEST_F(TriggerUnitTest, SwapLocalDataFlag_forwardsTheLastPacketInTheList) {
  auto sequence = builder();
  Descriptor& d = sequence.signal(kRight, 2);
  d.swap_local_data = true;
  d.data_bytes = 1;
  d.data[0] = std::byte{9};
  sequence.name(kLeft, 0).name(kLeft, 1);
  ASSERT_TRUE(post(sequence).ok());
  deliver(kLeft, 1, floats({2, 3}));
  deliver(kLeft, 0, floats({1}));
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].second, floats({2, 3})) << "the data of the packet named last is forwarded";
}

TEST_F(TriggerUnitTest, Descriptor_afterAPacketWithoutSwapFlags_sendsItsOwnData) {
  auto sequence = builder();
  Descriptor& d = sequence.signal(kRight, 2);
  d.data_bytes = 1;
  d.data[0] = std::byte{9};
  sequence.name(kLeft, 0);
  ASSERT_TRUE(post(sequence).ok());
  deliver(kLeft, 0, floats({1}));
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].second, std::vector{std::byte{9}});
}

TEST_F(TriggerUnitTest, PacketWithSwapDataFlag_replacesTheDataThatTheDescriptorSends) {
  auto sequence = builder();
  sequence.signal(kRight, 2);
  sequence.name(kLeft, 0);
  ASSERT_TRUE(post(sequence).ok());
  PacketHeader header = header_of(kLeft, 0, 4);
  header.swap_data = true;
  EXPECT_EQ(bank_.deliver(header, floats({7})), Delivered::accepted);
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].second, floats({7}));
  // A descriptor can also set the flag swap_data in the packet that it sends.
  auto next = builder();
  Descriptor& d = next.signal(kRight, 2);
  d.swap_remote_data = true;
  ASSERT_TRUE(post(next).ok());
  EXPECT_TRUE(sent().at(0).first.swap_data);
}

TEST_F(TriggerUnitTest, DescriptorWithSwapLocalPort_answersToTheSourcePortOfThePacket) {
  for (const bool swap : {false, true}) {
    auto sequence = builder();
    Descriptor& d = sequence.signal(kRight, 2);
    d.swap_local_port = swap;
    d.named[d.named_count++] = {kRight, static_cast<Port>(11), static_cast<SequenceId>(0)};
    ASSERT_TRUE(post(sequence).ok());
    EXPECT_EQ(bank_.deliver(header_of(kRight, 0, 0, static_cast<Port>(11)), {}),
              Delivered::accepted);
    const auto packets = sent();
    ASSERT_EQ(packets.size(), 1u);
    EXPECT_EQ(packets[0].first.destination_port, swap ? static_cast<Port>(11) : kPort);
  }
}

TEST_F(TriggerUnitTest, PacketWithSwapAddressFlag_setsTheTargetAddressOfAnRdmaDescriptor) {
  std::vector<std::byte> data = floats({1, 2, 3});
  const Address from = bank_.add_memory(kJob, data).value();
  const auto wanted = static_cast<Address>(0x1234);
  auto sequence = builder();
  sequence.send(kRight, 1, from, 12);
  sequence.name(kRight, 0);
  ASSERT_TRUE(post(sequence).ok());
  auto asking = builder();
  Descriptor& d = asking.send_address(kLeft, 9, wanted);
  EXPECT_TRUE(d.swap_remote_address);
  PacketHeader header = header_of(kRight, 0, d.data_bytes);
  header.swap_address = true;
  EXPECT_EQ(bank_.deliver(header, std::span(d.data).first(d.data_bytes)), Delivered::accepted);
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].first.kind, PayloadKind::rdma);
  EXPECT_EQ(packets[0].first.remote_address, wanted);
  EXPECT_EQ(packets[0].second, data);
}

TEST_F(TriggerUnitTest, RdmaPacketIsInMemoryBeforeItsTriggerFires) {
  std::vector<std::byte> memory(64);
  const Address place = bank_.add_memory(kJob, memory).value();
  auto sequence = builder();
  sequence.send(kRight, 1, place + 8, 4);  // the unit forwards data that a received packet wrote
  sequence.name(kLeft, 0);
  ASSERT_TRUE(post(sequence).ok());
  PacketHeader header = header_of(kLeft, 0, 4);
  header.kind = PayloadKind::rdma;
  header.remote_address = place + 8;
  EXPECT_EQ(bank_.deliver(header, floats({5})), Delivered::accepted);
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].second, floats({5}));
  EXPECT_TRUE(std::equal(memory.begin() + 8, memory.begin() + 12, packets[0].second.begin()));
}

TEST_F(TriggerUnitTest, AddressOfAnotherJobIsRefused) {
  std::vector<std::byte> mine(64);
  std::vector<std::byte> others(64);
  const Address place = bank_.add_memory(kJob, mine).value();
  const Address forbidden = bank_.add_memory(static_cast<JobId>(6), others).value();
  PacketHeader header = header_of(kLeft, 0, 8);
  header.kind = PayloadKind::rdma;
  for (const Address address : {forbidden, place + 60, kNoAddress}) {
    header.remote_address = address;
    EXPECT_EQ(bank_.deliver(header, floats({1, 2})), Delivered::refused);
  }
  EXPECT_EQ(others, std::vector<std::byte>(64));
  EXPECT_EQ(bank_.counters().refused, 3u);
  header = header_of(kLeft, 0, 0);
  header.destination = kRight;
  EXPECT_EQ(bank_.deliver(header, {}), Delivered::refused) << "misrouted";
  EXPECT_EQ(bank_.deliver(header_of(kLeft, 0, 4), {}), Delivered::refused)
      << "the header states another size than the payload has";
  const std::vector<std::byte> large(257);
  EXPECT_EQ(bank_.deliver(header_of(kLeft, 0, 257), large), Delivered::refused);
}

TEST_F(TriggerUnitTest, PacketWithCollectiveEnd_endsTheSequence_andSendsNothing) {
  for (const bool end : {false, true}) {
    auto sequence = builder();
    sequence.signal(kRight, 2);
    sequence.name(kLeft, 0);
    ASSERT_TRUE(post(sequence).ok());
    PacketHeader header = header_of(kLeft, 0, 0);
    header.collective_end = end;
    EXPECT_EQ(bank_.deliver(header, {}), Delivered::accepted);
    EXPECT_EQ(sent().size(), end ? 0u : 1u);
    EXPECT_EQ(completed().ok(), end);
  }
}

TEST_F(TriggerUnitTest, DescriptorWithCollectiveEnd_endsASequenceAtItsTarget) {
  auto sequence = builder();
  sequence.signal(kRight, 2).collective_end = true;
  sequence.signal(kSelf, 0).collective_end = true;
  ASSERT_TRUE(post(sequence).ok());
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_TRUE(packets[0].first.collective_end);
  EXPECT_TRUE(completed().ok()) << "a descriptor to this node must end its own sequence";
}

TEST_F(TriggerUnitTest, PacketWithoutTriggerFlagFiresNothing) {
  auto sequence = builder();
  sequence.signal(kRight, 2).trigger = false;
  ASSERT_TRUE(post(sequence).ok());
  EXPECT_FALSE(sent().at(0).first.trigger);
  auto waiting = builder();
  waiting.wait(kLeft, 0);
  waiting.end();
  ASSERT_TRUE(post(waiting).ok());
  PacketHeader header = header_of(kLeft, 0, 4);
  header.trigger = false;
  EXPECT_EQ(bank_.deliver(header, floats({3})), Delivered::accepted);
  EXPECT_TRUE(nothing_completed());
  ASSERT_FALSE(bank_.messages().empty()) << "the packet must become a message for the host";
  EXPECT_EQ(bank_.messages().front().payload, floats({3}));
}

TEST_F(TriggerUnitTest, PointToPointDescriptor_sendsItsPacketAtOnce) {
  Descriptor d;
  d.job = kJob;
  d.collective = false;
  d.destination = kRight;
  d.data_bytes = 2;
  EXPECT_EQ(bank_.post({d}, now_).code(), Code::invalid_argument);
  EXPECT_TRUE(bank_.send_point_to_point(d).ok());
  EXPECT_TRUE(bank_.send_point_to_point(d).ok());
  EXPECT_EQ(bank_.send_point_to_point(d).code(), Code::resource_exhausted);
  ASSERT_NE(bank_.next_outbox(), nullptr);
  PacketHeader header = bank_.next_outbox()->front().header;
  EXPECT_FALSE(header.collective);
  header.destination = kSelf;
  EXPECT_EQ(bank_.deliver(header, std::vector<std::byte>(2)), Delivered::accepted);
  EXPECT_EQ(bank_.messages().size(), 1u);
  d.collective = true;
  EXPECT_EQ(bank_.send_point_to_point(d).code(), Code::invalid_argument);
}

TEST_F(TriggerUnitTest, DescriptorIsHeldBack_whileTheOutboxIsFull) {
  auto sequence = builder();
  for (std::uint32_t step = 0; step < 5; ++step) sequence.signal(kRight, step);
  ASSERT_TRUE(post(sequence).ok());
  EXPECT_EQ(bank_.poll(now_), 2u) << "two places";
  EXPECT_EQ(bank_.poll(now_), 0u);
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 5u);
  for (std::uint32_t step = 0; step < 5; ++step) {
    EXPECT_EQ(index(packets[step].first.key.sequence), step);
  }
}

TEST_F(TriggerUnitTest, PacketInMemory_keepsItsBytes_afterTheCollectiveHasEnded) {
  std::vector<std::byte> data = floats({1, 2});
  auto sequence = builder();
  sequence.send(kRight, 1, bank_.add_memory(kJob, data).value(), 8).remote_address = kRemote;
  sequence.wait(kLeft, 0);
  sequence.end();
  ASSERT_TRUE(post(sequence).ok());
  ASSERT_TRUE(nothing_completed());
  EXPECT_EQ(bank_.next_outbox()->front().payload.data(), data.data())
      << "not copied before the end";
  ASSERT_EQ(deliver(kLeft, 0), Delivered::accepted);
  ASSERT_TRUE(completed().ok());
  std::fill(data.begin(), data.end(), std::byte{9});
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].first.kind, PayloadKind::rdma);
  EXPECT_EQ(packets[0].second, floats({1, 2}));
}

TEST_F(TriggerUnitTest, ClosedJob_leavesNoOutgoingPacketInItsMemory) {
  std::vector<std::byte> data = floats({1, 2});
  std::vector<std::byte> others = floats({3, 4});
  const Address from = bank_.add_memory(kJob, data).value();
  auto sequence = builder();
  sequence.send(kRight, 1, from, 8).remote_address = kRemote;
  sequence.wait(kLeft, 0);
  ASSERT_TRUE(post(sequence).ok());
  Descriptor message;
  message.collective = false;
  message.destination = kRight;
  message.kind = PayloadKind::rdma;
  message.remote_address = kRemote;
  message.data_bytes = 8;
  message.job = kJob;
  message.address = from;
  ASSERT_TRUE(bank_.send_point_to_point(message).ok());
  message.job = static_cast<JobId>(6);
  message.address = bank_.add_memory(message.job, others).value();
  ASSERT_TRUE(bank_.send_point_to_point(message).ok());
  EXPECT_EQ(bank_.poll(now_), 1u) << "the packet must be in the outbox";
  bank_.close_job(kJob);
  for (auto* memory : {&data, &others}) std::fill(memory->begin(), memory->end(), std::byte{9});
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 3u);
  EXPECT_EQ(packets[0].second, floats({1, 2}));
  EXPECT_EQ(packets[1].second, others) << "a job that is open keeps its packets in its memory";
  EXPECT_EQ(packets[2].second, floats({1, 2}));
}

TEST_F(TriggerUnitTest, Packets_areCombinedInListOrder_andFreeTheirSlots) {
  std::vector<std::byte> own = floats({1});
  std::vector<std::byte> result(4);
  auto sequence = builder();
  sequence.reduce(Operation::sum, ElementType::float32, bank_.add_memory(kJob, own).value(),
                  bank_.add_memory(kJob, result).value(), 4, 0);
  for (std::uint32_t step = 0; step < 8; ++step) sequence.name(kLeft, step);
  sequence.end();
  ASSERT_TRUE(post(sequence).ok());
  const auto occupied = [&] {
    std::uint32_t sum = 0;
    bank_.poll(now_);
    for (std::uint32_t u = 0; u < bank_.units(); ++u) {
      sum += bank_.unit(u).buffer().counters().occupied;
    }
    return sum;
  };
  for (std::uint32_t step = 7; step > 0; --step) deliver(kLeft, step, floats({1}));
  EXPECT_EQ(occupied(), 7u) << "no packet may be folded before that of step 0";
  deliver(kLeft, 0, floats({1}));
  EXPECT_EQ(occupied(), 0u);
  EXPECT_TRUE(completed().ok());
  EXPECT_EQ(result, floats({9}));
}

TEST_F(TriggerUnitTest, Average_isDividedOnceByTheNumberOfContributions) {
  std::vector<std::byte> own = floats({1, 5});
  std::vector<std::byte> result(8);
  auto sequence = builder();
  sequence
      .reduce(Operation::average, ElementType::float32, bank_.add_memory(kJob, own).value(),
              bank_.add_memory(kJob, result).value(), 8, 1)
      .contributions = 2;
  sequence.name(kLeft, 0);
  sequence.end();
  ASSERT_TRUE(post(sequence).ok());
  deliver(kLeft, 0, floats({2, 6}));
  EXPECT_TRUE(completed().ok());
  EXPECT_EQ(result, floats({1.5f, 5.5f}));
}

TEST_F(TriggerUnitTest, PollThatRanOutOfMemoryAtTheEndOfACollective_canBeRepeated) {
  std::vector<std::byte> own = floats({1, 5});
  std::vector<std::byte> result(8);
  std::vector<std::byte> sent(4'096);  // longer than a slot, so that its copy needs memory
  auto sequence = builder();
  sequence.send(kRight, 1, bank_.add_memory(kJob, sent).value(), 4'096).remote_address = kRemote;
  Descriptor& average =
      sequence.reduce(Operation::average, ElementType::float32, bank_.add_memory(kJob, own).value(),
                      bank_.add_memory(kJob, result).value(), 8, 1);
  average.contributions = 2;
  average.collective_end = true;
  average.destination = kSelf;
  sequence.name(kLeft, 0);
  ASSERT_TRUE(post(sequence).ok());
  ASSERT_TRUE(nothing_completed());
  deliver(kLeft, 0, floats({2, 6}));
  test::fail_allocation(1);
  EXPECT_THROW(bank_.poll(now_), std::bad_alloc);
  test::fail_allocation(0);
  EXPECT_TRUE(completed().ok());
  EXPECT_EQ(result, floats({1.5f, 5.5f}));
}

TEST_F(TriggerUnitTest, FailureWhoseReportRanOutOfMemory_isReportedByALaterPoll) {
  bool failed = true;
  int failures = 0;
  for (int number = 1; failed; ++number) {
    UnitBank bank{settings()};
    std::vector<std::byte> sent(4'096);  // longer than a slot, so that its copy needs memory
    auto sequence = builder();
    sequence.send(kRight, 1, bank.add_memory(kJob, sent).value(), 4'096).remote_address = kRemote;
    sequence.receive(kLeft, 0, kRemote, 4);  // at an address that the job has not registered
    sequence.end();
    ASSERT_TRUE(bank.post(sequence.finish(), now_).ok());
    bank.poll(now_);
    bank.deliver(header_of(kLeft, 0, 4), floats({2}));
    test::fail_allocation(number);
    try {
      bank.poll(now_);
    } catch (const std::bad_alloc&) {
    }
    test::fail_allocation(0);
    failed = test::allocation_failed();
    failures += failed ? 1 : 0;
    test::forget_failed_allocation();
    bank.poll(now_);
    ASSERT_FALSE(bank.completions().empty()) << "after a failure of allocation " << number;
    const Status& status = bank.completions().front().status;
    EXPECT_NE(status.message().find("the memory is not registered"), std::string::npos)
        << "after a failure of allocation " << number << ": " << status.to_string();
  }
  EXPECT_GT(failures, 0) << "no allocation of the poll failed";
}

TEST_F(TriggerUnitTest, ImpossibleDescriptorsFailTheSequenceWithAReason) {
  std::vector<std::byte> own = floats({1, 5});
  const Address from = bank_.add_memory(kJob, own).value();
  const auto failure_of = [&](auto write) {
    auto sequence = builder();
    write(sequence);
    EXPECT_TRUE(post(sequence).ok());
    deliver(kLeft, 0, floats({2}));
    const Status status = completed();
    bank_.poll(now_);
    EXPECT_EQ(bank_.unit(0).active_sequences(), 0u);
    return status;
  };
  const Status length = failure_of([&](SequenceBuilder& s) {
    s.reduce(Operation::sum, ElementType::float32, from, from, 8, 0);
    s.name(kLeft, 0);
  });
  EXPECT_EQ(length.code(), Code::invalid_argument);
  EXPECT_NE(
      length.message().find(
          "job 5 node 2 port 4 step 0 has 4 bytes, but the reduction that waits for it needs 8"),
      std::string::npos)
      << length.message();
  const Status memory = failure_of([&](SequenceBuilder& s) {
    s.reduce(Operation::sum, ElementType::float32, from + 8, from, 4, 0);
    s.name(kLeft, 0);
  });
  EXPECT_EQ(memory.code(), Code::invalid_argument);
  bank_.close_job(kJob);
  const Status nowhere = failure_of([&](SequenceBuilder& s) { s.receive(kLeft, 0, from, 4); });
  EXPECT_EQ(nowhere.code(), Code::invalid_argument) << "closing the job must remove its region";
}

TEST_F(TriggerUnitTest, TimeoutOfASequenceNamesTheMissingPacket) {
  UnitBank::Settings limited = settings();
  limited.unit.wait_limit = Nanoseconds(100);
  UnitBank bank(limited);
  auto sequence = builder();
  sequence.wait(kRight, 6);
  sequence.end();
  ASSERT_TRUE(bank.post(sequence.finish(), {0}).ok());
  bank.poll({0});
  bank.poll({100});
  EXPECT_TRUE(bank.completions().empty());
  bank.poll({101});
  ASSERT_FALSE(bank.completions().empty());
  const Status status = bank.completions().front().status;
  EXPECT_EQ(status.code(), Code::timeout);
  EXPECT_NE(status.message().find("job 5 node 3 port 4 step 6"), std::string::npos);
  EXPECT_EQ(bank.directory().jobs(), 0u);
}

TEST_F(TriggerUnitTest, SequenceRefusedByAFullUnit_canBePostedLater) {
  // All five sequences use the same port and therefore the same trigger unit, which has room for
  // four.
  for (int i = 0; i < 5; ++i) {
    auto sequence = builder();
    sequence.wait(kLeft, static_cast<std::uint32_t>(i));
    sequence.end();
    EXPECT_EQ(post(sequence).code(), i < 4 ? Code::ok : Code::resource_exhausted);
  }
  EXPECT_EQ(bank_.counters().posts_deferred, 1u);
  deliver(kLeft, 2);
  EXPECT_TRUE(completed().ok());
  auto sequence = builder();
  sequence.wait(kLeft, 4);
  sequence.end();
  EXPECT_TRUE(post(sequence).ok());
}

TEST_F(TriggerUnitTest, Ports_areDistributedOverTheUnits_andGetTheirPackets) {
  for (std::uint32_t port = 0; port < 16; ++port) {
    SequenceBuilder sequence(kJob, static_cast<Port>(port), kSelf);
    sequence.wait(kLeft, 0);
    sequence.end();
    if (port % 2 == 0) {
      ASSERT_TRUE(bank_.post(sequence.finish(), now_).ok());
    }
    PacketHeader header = header_of(kLeft, 0, 0, static_cast<Port>(port));
    header.destination_port = static_cast<Port>(port);
    EXPECT_EQ(bank_.deliver(header, {}), Delivered::accepted);
    if (port % 2 == 1) {
      ASSERT_TRUE(bank_.post(sequence.finish(), now_).ok())
          << "a sequence posted after its packet must be accepted";
    }
  }
  for (std::uint32_t u = 0; u < bank_.units(); ++u) {
    EXPECT_EQ(bank_.directory().bound_ports(u), 2u) << "unit " << u;
  }
  bank_.poll(now_);
  EXPECT_EQ(bank_.completions().size(), 16u);
  EXPECT_EQ(bank_.directory().jobs(), 0u);
}

}  // namespace
}  // namespace tutti::trigger
