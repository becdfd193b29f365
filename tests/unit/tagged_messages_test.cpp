// Tests sends and receives between ranks that are threads of this process. The build runs the tests
// on the device ip and on the device host.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "communicator_ranks.hpp"

namespace tutti {
namespace {

using namespace test;

constexpr std::size_t kLongBytes = 300'000;  // longer than any eager message
constexpr Rank kZero{0};
constexpr Rank kOne{1};

/// Waits for a receive that must succeed; returns its message.
MessageInfo received(Request& request) {
  const Status status = request.wait_for(kLong);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return request.message();
}

void leave(Communicator& communicator) { finish(communicator.barrier()); }

TEST(TaggedMessages, MessagesOfEverySize_arriveWholeWithTheirSourceTagAndLength) {
  on_ranks(3, patient(), [](Communicator& communicator) {
    const Rank me = communicator.rank();
    const Rank next = rank_of((index(me) + 1) % 3);
    const Rank previous = rank_of((index(me) + 2) % 3);
    for (const std::size_t size : {0u, 1u, 230u, 1500u, 16'000u, 16'384u, 70'001u, 1'000'003u}) {
      const Bytes wanted = pattern(size, 10 + index(previous));
      const Bytes own = pattern(size, 10 + index(me));
      Bytes buffer(size + 100);
      Request receive = begun(communicator.receive(buffer, previous, size));
      finish(communicator.send(own, next, size));
      const MessageInfo message = received(receive);
      EXPECT_EQ(message.source, previous);
      EXPECT_EQ(message.tag, size);
      ASSERT_EQ(message.bytes, size);
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), buffer.begin())) << size << " bytes";
    }
    leave(communicator);
    const Counters counters = counters_of(communicator);
    EXPECT_GE(counters.at("tagged_sent_eager"), 4u);
    EXPECT_GE(counters.at("tagged_sent_rendezvous"), 2u);
    EXPECT_EQ(counters.at("tagged_expected") + counters.at("tagged_unexpected"), 8u);
  });
}

TEST(TaggedMessages, ShortSend_withoutAReceive_completes_andItsMessageWaitsAtTheReceiver) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    const Bytes wanted = pattern(1000, 1);
    if (communicator.rank() == kZero) finish(communicator.send(wanted, kOne, 5));
    if (communicator.rank() == kOne) {
      while (counters_of(communicator).at("tagged_unexpected") == 0) {
        ASSERT_TRUE(communicator.status().ok());  // status() polls the engine for messages
      }
      Bytes buffer(1000);
      Request receive = begun(communicator.receive(buffer, kAnyRank, 5));
      EXPECT_EQ(received(receive).source, kZero);
      EXPECT_EQ(buffer, wanted);
    }
    leave(communicator);
  });
}

TEST(TaggedMessages, LongSend_completesOnlyAfterAReceiveHasTakenTheMessage) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    Bytes buffer = pattern(kLongBytes, 2);
    if (communicator.rank() == kZero) {
      Request send = begun(communicator.send(buffer, kOne, 5));
      leave(communicator);
      EXPECT_FALSE(send.test());
      leave(communicator);
      EXPECT_TRUE(send.wait_for(kLong).ok());
    } else {
      const Bytes wanted = buffer;
      std::fill(buffer.begin(), buffer.end(), std::byte{0});
      leave(communicator);
      leave(communicator);
      Request receive = begun(communicator.receive(buffer, kZero, 5));
      EXPECT_EQ(received(receive).bytes, kLongBytes);
      EXPECT_EQ(buffer, wanted);
    }
    leave(communicator);
  });
}

// The receiver fetches the message by a READ, so that neither application thread has to call the
// library during the transfer.
TEST(TaggedMessages, LongMessageBetweenSleepingThreads_arrives) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    const bool sends = communicator.rank() == kZero;
    const Bytes wanted = pattern(kLongBytes, 4);
    Bytes buffer = sends ? wanted : Bytes(kLongBytes);
    std::atomic<bool> done{false};
    Request request =
        begun(sends ? communicator.send(buffer, kOne, 5) : communicator.receive(buffer, kZero, 5));
    const Status set = communicator.on_completion(request, [&](const Status& status) {
      EXPECT_TRUE(status.ok()) << status.to_string();
      done = true;
      done.notify_all();
    });
    ASSERT_TRUE(set.ok()) << set.to_string();
    done.wait(false);  // the thread sleeps outside the library
    EXPECT_EQ(buffer, wanted);
    const Counters counters = counters_of(communicator);
    EXPECT_EQ(counters.at("tagged_sent_rendezvous"), sends ? 1u : 0u);
    leave(communicator);
  });
}

TEST(TaggedMessages, EagerMessage_isCopiedOnceAtTheSender_andOnceMoreIfTheReceiveIsLate) {
  constexpr std::size_t kBytes = 10'000;  // several frames
  on_ranks(2, patient(), [&](Communicator& communicator) {
    Bytes buffer = communicator.rank() == kZero ? pattern(kBytes, 6) : Bytes(kBytes);
    for (const bool in_time : {true, false}) {
      const Counters before = counters_of(communicator);
      Request receive;
      if (communicator.rank() == kOne && in_time)
        receive = begun(communicator.receive(buffer, kZero, 5));
      leave(communicator);
      if (communicator.rank() == kZero) finish(communicator.send(buffer, kOne, 5));
      const char* const came = in_time ? "tagged_expected" : "tagged_unexpected";
      while (communicator.rank() == kOne && grown(before, counters_of(communicator), came) == 0)
        ASSERT_TRUE(communicator.status().ok());  // status() polls the engine for messages
      if (communicator.rank() == kOne && !in_time)
        receive = begun(communicator.receive(buffer, kZero, 5));
      if (communicator.rank() == kOne) received(receive);
      EXPECT_EQ(buffer, pattern(kBytes, 6));
      const bool copies = communicator.rank() == kZero || !in_time;
      EXPECT_EQ(grown(before, counters_of(communicator), "tagged_bytes_copied"),
                copies ? kBytes : 0);
      leave(communicator);
    }
  });
}

TEST(TaggedMessages, MessagesOfOneSource_ofAnyLength_arriveInTheOrderSent) {
  constexpr std::uint32_t kMessages = 200;
  const auto length = [](std::uint32_t i) { return i % 7 == 3 ? kLongBytes + i : 8 + 40 * i; };
  on_ranks(2, patient(), [&](Communicator& communicator) {
    std::vector<Bytes> buffers;
    std::vector<Request> requests;
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      const bool sends = communicator.rank() == kZero;
      buffers.push_back(sends ? pattern(length(i), i) : Bytes(kLongBytes + kMessages));
      requests.push_back(begun(sends ? communicator.send(buffers[i], kOne, 1)
                                     : communicator.receive(buffers[i], kZero, 1)));
    }
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(requests[i].wait_for(kLong).ok());
      if (communicator.rank() == kZero) continue;
      ASSERT_EQ(requests[i].message().bytes, length(i)) << "message " << i;
      buffers[i].resize(length(i));
      EXPECT_EQ(buffers[i], pattern(length(i), i)) << "message " << i;
    }
    leave(communicator);
  });
}

// The tags are received in reverse order, so that the first receive matches the last message.
TEST(TaggedMessages, MoreUnexpectedMessagesThanTheReceiverHasRoomFor_allArrive) {
  constexpr std::uint32_t kMessages = 400;
  constexpr std::size_t kBytes = 1000;
  on_ranks(2, patient(), [&](Communicator& communicator) {
    if (communicator.rank() == kZero) {
      std::vector<Bytes> messages;
      std::vector<Request> sends;
      for (std::uint32_t i = 0; i < kMessages; ++i) {
        messages.push_back(pattern(kBytes, i));
        sends.push_back(begun(communicator.send(messages[i], kOne, i)));
      }
      leave(communicator);
      for (Request& send : sends) EXPECT_TRUE(send.wait_for(kLong).ok());
      const Counters counters = counters_of(communicator);
      EXPECT_EQ(counters.at("tagged_sent_eager"), 256u * 1024 / (kBytes + 64));
      EXPECT_EQ(counters.at("tagged_sent_rendezvous"),
                kMessages - counters.at("tagged_sent_eager"));
    } else {
      leave(communicator);
      for (std::uint32_t i = kMessages; i-- > 0;) {
        Bytes buffer(kBytes);
        Request receive = begun(communicator.receive(buffer, kZero, i));
        received(receive);
        ASSERT_EQ(buffer, pattern(kBytes, i)) << "tag " << i;
      }
    }
    leave(communicator);
  });
}

TEST(TaggedMessages, MemoryForEagerMessages_isReused_soALongStreamStaysEager) {
  constexpr std::uint32_t kMessages = 1000;
  on_ranks(2, patient(), [&](Communicator& communicator) {
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      Bytes buffer(10'000);
      const bool sends = (communicator.rank() == kZero) == (i % 2 == 0);
      finish(sends ? communicator.send(buffer, rank_of(1 - index(communicator.rank())), i)
                   : communicator.receive(buffer, kAnyRank, i));
    }
    EXPECT_EQ(counters_of(communicator).at("tagged_sent_eager"), kMessages / 2);
    EXPECT_EQ(counters_of(communicator).at("tagged_sent_rendezvous"), 0u);
    leave(communicator);
  });
}

TEST(TaggedMessages, MessageToTheOwnRank_sentBeforeOrAfterItsReceive_arrives) {
  on_ranks(1, patient(), [](Communicator& communicator) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{8}, kLongBytes}) {
      const Bytes wanted = pattern(size, 3);
      Bytes buffer(size);
      Request send = begun(communicator.send(wanted, kZero, 9));
      EXPECT_FALSE(send.test());
      Request receive = begun(communicator.receive(buffer, kZero, 9));
      EXPECT_EQ(received(receive).bytes, size);
      EXPECT_TRUE(send.wait().ok());
      EXPECT_EQ(buffer, wanted);

      std::fill(buffer.begin(), buffer.end(), std::byte{0});
      receive = begun(communicator.receive(buffer, kAnyRank, 9));
      finish(communicator.send(wanted, kZero, 9));
      EXPECT_EQ(received(receive).source, kZero);
      EXPECT_EQ(buffer, wanted);
    }
  });
}

TEST(TaggedMessages, MessageLongerThanTheBuffer_failsOnlyItsReceive_namingBothLengths) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    for (const std::size_t size : {std::size_t{500}, kLongBytes}) {
      Bytes bytes(size);
      if (communicator.rank() == kZero) {
        finish(communicator.send(bytes, kOne, 4));
      } else {
        Request receive = begun(communicator.receive(std::span(bytes).first(size - 1), kZero, 4));
        const Status status = receive.wait_for(kLong);
        EXPECT_EQ(status.code(), Code::invalid_argument);
        const std::string& text = status.message();
        EXPECT_NE(text.find(std::to_string(size - 1) + " bytes from rank 0"), std::string::npos)
            << text;
        EXPECT_NE(text.find("a message of " + std::to_string(size)), std::string::npos) << text;
        EXPECT_EQ(receive.message().bytes, size);
      }
      leave(communicator);
    }
  });
}

TEST(TaggedMessages, CancelledReceive_endsAborted_andItsMessageGoesToTheNextReceive) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    Bytes buffer(100);
    if (communicator.rank() == kOne) {
      Request receive = begun(communicator.receive(buffer, kZero, 4));
      EXPECT_TRUE(receive.cancel().ok());
      EXPECT_EQ(receive.wait_for(kLong).code(), Code::aborted);
      leave(communicator);
      receive = begun(communicator.receive(buffer, kZero, 4));
      EXPECT_EQ(received(receive).bytes, 100u);
      EXPECT_TRUE(receive.cancel().ok());  // the receive already has its message
      EXPECT_TRUE(receive.wait().ok());
    } else {
      leave(communicator);
      Request send = begun(communicator.send(buffer, kOne, 4));
      EXPECT_EQ(send.cancel().code(), Code::invalid_argument);
      EXPECT_TRUE(send.wait().ok());
    }
    leave(communicator);
  });
}

TEST(TaggedMessages, InvalidRank_isRefused_andNamedInTheError) {
  on_ranks(2, patient(), [](Communicator& communicator) {
    Bytes buffer(8);
    const auto sent = communicator.send(buffer, rank_of(2), 0);
    EXPECT_EQ(sent.status().code(), Code::invalid_argument);
    EXPECT_NE(sent.status().message().find("rank 2 is not one of the 2 ranks"), std::string::npos);
    EXPECT_FALSE(communicator.send(buffer, kAnyRank, 0).ok());
    EXPECT_FALSE(communicator.receive(buffer, rank_of(7), 0).ok());
    leave(communicator);
  });
}

TEST(TaggedMessages, Abort_failsEveryCallAtEveryRank_andErrorsNameTheAbortingRank) {
  std::latch both_called(2);
  on_ranks(2, patient(), [&both_called](Communicator& communicator) {
    Bytes buffer(kLongBytes);
    const bool aborts = communicator.rank() == kZero;
    Request call = begun(aborts ? communicator.send(buffer, kOne, 1)
                                : communicator.receive(buffer, kAnyRank, 2));
    both_called.arrive_and_wait();
    if (aborts) communicator.abort("test");
    const Status status = call.wait_for(kLong);
    EXPECT_EQ(status.code(), aborts ? Code::aborted : Code::peer_failed);
    EXPECT_EQ(ranks_of(status), std::vector<std::uint32_t>{0}) << status.to_string();
    EXPECT_NE(status.message().find(aborts ? "send of 300000 bytes to rank 1"
                                           : "receive of 300000 bytes from any rank"),
              std::string::npos)
        << status.message();
    EXPECT_FALSE(communicator.send(buffer, kZero, 0).ok());
  });
}

TEST(TaggedMessages, MessagesAndCollectives_atTheSameTime_doNotDisturbEachOther) {
  constexpr std::uint32_t kRounds = 50;
  on_ranks(4, patient(), [](Communicator& communicator) {
    const std::uint32_t me = index(communicator.rank());
    std::thread messenger([&] {
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        const std::size_t size = round % 5 == 0 ? kLongBytes : 100 * round;
        const Bytes own = pattern(size, me);
        Bytes buffer(size);
        Request receive = begun(communicator.receive(buffer, rank_of((me + 3) % 4), round));
        finish(communicator.send(own, rank_of((me + 1) % 4), round));
        received(receive);
        EXPECT_EQ(buffer, pattern(size, (me + 3) % 4));
      }
    });
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const std::size_t size = round % 3 == 0 ? 100'000 : 64;
      const Bytes own = pattern(size, me);
      Bytes all(4 * size);
      finish(communicator.allgather(own, all, {}));
      expect_blocks(all, size, 4);
    }
    messenger.join();
    leave(communicator);
  });
}

}  // namespace
}  // namespace tutti
