// Tests the store's decoder, a running store and a rank with bytes that no correct rank sends.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>

#include <random>

#include "bootstrap_ranks.hpp"
#include "runtime/bootstrap/store/store_client.hpp"
#include "runtime/bootstrap/store/store_frame.hpp"
#include "runtime/bootstrap/store/store_server.hpp"
#include "runtime/bootstrap/store/store_state.hpp"
#include "runtime/bootstrap/store/stream.hpp"

namespace tutti::runtime::test {
namespace {

const JobToken kToken = make_job_token("a job").value();
const JobToken kOwner = make_job_token("the process of rank 0").value();

const std::string kHere = "127.0.0.1:7";

Hello hello_of(std::uint32_t rank, std::uint32_t size, std::uint32_t remaining_ms = 60000) {
  return {rank, size, 60000, remaining_ms, rank == 0 ? kOwner : kToken};
}

Bytes with_byte(Bytes frame, std::size_t position, int value) {
  frame[position] = static_cast<std::byte>(value);
  return frame;
}

Code decode(const Bytes& frame, std::size_t max_payload_bytes = 1024) {
  FrameDecoder decoder(max_payload_bytes);
  decoder.append(frame);
  return decoder.take().status().code();
}

TEST(BootstrapFrame, FramesInPiecesAreReassembled) {
  Bytes stream = encode(hello_of(3, 8));
  const Bytes second = encode_gather(7, 100, bytes_of("part"));
  stream.insert(stream.end(), second.begin(), second.end());
  FrameDecoder decoder(1024);
  std::vector<Frame> frames;
  for (const std::byte byte : stream) {
    decoder.append(std::span(&byte, 1));
    auto frame = decoder.take();
    ASSERT_TRUE(frame.ok());
    if (*frame) frames.push_back(std::move(**frame));
  }
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(decode_hello(frames[0].payload)->rank, 3u);
  EXPECT_EQ(decode_gather(frames[1].payload)->exchange, 7u);
  EXPECT_EQ(decode_gather(frames[1].payload)->bytes, bytes_of("part"));
}

TEST(BootstrapFrame, WrongHeadersAreRefused) {
  const Bytes good = encode(hello_of(0, 1));
  EXPECT_EQ(decode(good), Code::ok);
  EXPECT_EQ(decode(with_byte(good, 0, 'X')), Code::invalid_argument);    // wrong magic
  EXPECT_EQ(decode(with_byte(good, 4, 9)), Code::unsupported);           // wrong version
  EXPECT_EQ(decode(with_byte(good, 5, 0)), Code::invalid_argument);      // wrong kind
  EXPECT_EQ(decode(with_byte(good, 5, 7)), Code::invalid_argument);      // wrong kind
  EXPECT_EQ(decode(with_byte(good, 6, 1)), Code::invalid_argument);      // reserved byte is set
  EXPECT_EQ(decode(with_byte(good, 11, 0xff)), Code::invalid_argument);  // 4 GiB of payload
  EXPECT_EQ(decode(good, Hello::kBytes - 1), Code::invalid_argument);
}

TEST(BootstrapFrame, MalformedPayloadsAreRefused) {
  EXPECT_FALSE(decode_hello(Bytes(Hello::kBytes - 1)).ok());
  EXPECT_FALSE(decode_hello(Bytes(Hello::kBytes + 1)).ok());
  EXPECT_FALSE(decode_gather(Bytes(Gather::kPrefixBytes - 1)).ok());
  const std::vector<Bytes> parts = {bytes_of("a"), bytes_of("bc")};
  const Bytes frame = encode_result(5, parts);
  const Bytes payload(frame.begin() + kFrameHeaderBytes, frame.end());
  EXPECT_EQ(*decode_result(payload, 5, 2), parts);
  EXPECT_FALSE(decode_result(payload, 6, 2).ok());
  EXPECT_FALSE(decode_result(payload, 5, 1).ok());
  EXPECT_FALSE(decode_result(payload, 5, 1u << 20).ok());
  EXPECT_FALSE(decode_result(Bytes(payload.begin(), payload.end() - 1), 5, 2).ok());
  EXPECT_FALSE(decode_result(with_byte(payload, 7, 0xff), 5, 2).ok());
}

TEST(BootstrapFrame, DamagedFailureMessage_decodesToAnError) {
  EXPECT_EQ(decode_failed(Bytes(), 4).code(), Code::internal);
  EXPECT_EQ(decode_failed(Bytes(1), 4).code(), Code::internal);
  EXPECT_EQ(decode_failed(Bytes(1, std::byte{200}), 4).code(), Code::internal);
  EXPECT_EQ(decode_failed(Bytes(5, std::byte{1}), 4).code(), Code::internal);  // truncated rank
  const Bytes frame = encode_failed(Status(Code::timeout, "rank\n3", {Rank{3}, Rank{4}}));
  const Status status = decode_failed(Bytes(frame.begin() + kFrameHeaderBytes, frame.end()), 4);
  EXPECT_EQ(status.to_string(), "timeout: rank?3");
  ASSERT_EQ(status.ranks().size(), 1u);  // a job of 4 ranks has no rank 4
  EXPECT_EQ(status.ranks()[0], Rank{3});
}

TEST(BootstrapFrame, RandomPayloadIsNoResultOfAnExchange) {
  constexpr std::uint32_t kRuns = 2000;
  std::mt19937 random(1);
  std::uint32_t decoded = 0;
  for (std::uint32_t run = 0; run < kRuns; ++run) {
    // Every second run keeps the header and the exchange number, so that decoding reaches the rest.
    Bytes frame = encode_gather(run, 0, Bytes(random() % 64));
    const std::size_t from = run % 2 == 0 ? 0 : kFrameHeaderBytes + sizeof run;
    for (std::size_t i = from; i < frame.size(); ++i) frame[i] = static_cast<std::byte>(random());
    FrameDecoder decoder(256);
    decoder.append(frame);
    const auto taken = decoder.take();
    if (!taken.ok() || !*taken) continue;
    ++decoded;
    EXPECT_LE((*taken)->payload.size(), 256u);
    for (const std::uint32_t size : {1u, 3u, 1u << 20}) {
      EXPECT_FALSE(decode_result((*taken)->payload, run, size).ok()) << "run " << run;
    }
  }
  EXPECT_GE(decoded, kRuns / 2);
}

TEST(BootstrapRendezvous, Exchange_completesOnceEveryRankHasContributed) {
  const Deadline now = SteadyClock::now();
  Rendezvous job("here", kToken, kOwner, std::nullopt);
  EXPECT_EQ(job.hello(hello_of(1, 2), kHere, now).admission, Rendezvous::Admission::joined);
  EXPECT_TRUE(job.take_messages().empty());
  EXPECT_EQ(job.hello(hello_of(0, 2), kHere, now).admission, Rendezvous::Admission::joined);
  EXPECT_EQ(job.take_messages().size(), 2u);
  EXPECT_TRUE(job.contribute(0, {0, 1000, bytes_of("a")}, now).ok());
  EXPECT_TRUE(job.take_messages().empty());
  EXPECT_TRUE(job.contribute(1, {0, 1000, bytes_of("b")}, now).ok());
  EXPECT_EQ(job.take_messages().size(), 2u);
  EXPECT_EQ(job.next_deadline(), Deadline::max());
}

TEST(BootstrapRendezvous, ContributionToTheWrongExchange_endsTheJob) {
  const Deadline now = SteadyClock::now();
  Rendezvous job("here", kToken, kOwner, 2);
  EXPECT_EQ(job.hello(hello_of(0, 2), kHere, now).admission, Rendezvous::Admission::joined);
  EXPECT_EQ(job.contribute(0, {0, 1000, {}}, now).code(), Code::internal);  // rank 1 has not joined
  EXPECT_EQ(job.hello(hello_of(1, 2), kHere, now).admission, Rendezvous::Admission::refused);

  Rendezvous other("here", kToken, kOwner, 2);
  EXPECT_EQ(other.hello(hello_of(0, 2), kHere, now).admission, Rendezvous::Admission::joined);
  EXPECT_EQ(other.hello(hello_of(1, 2), kHere, now).admission, Rendezvous::Admission::joined);
  EXPECT_EQ(other.take_messages().size(), 2u);
  EXPECT_TRUE(other.contribute(0, {0, 1000, {}}, now).ok());
  // Rank 1 contributes to exchange 1 although exchange 0 has not ended.
  EXPECT_EQ(other.contribute(1, {1, 1000, {}}, now).code(), Code::internal);
  EXPECT_EQ(other.take_messages().size(), 1u);  // the failure message for rank 0
}

TEST(BootstrapRendezvous, ContributionBeyondTheLimit_isRefusedBeforeTheOtherRanksContribute) {
  const Deadline now = SteadyClock::now();
  Rendezvous job("here", kToken, kOwner, 3, 10);
  for (const std::uint32_t rank : {0u, 1u, 2u}) {
    EXPECT_EQ(job.hello(hello_of(rank, 3), kHere, now).admission, Rendezvous::Admission::joined);
  }
  EXPECT_EQ(job.take_messages().size(), 3u);
  EXPECT_TRUE(job.contribute(0, {0, 1000, Bytes(10)}, now).ok());
  EXPECT_EQ(job.contribute(1, {0, 1000, Bytes(1)}, now).code(), Code::resource_exhausted);
  EXPECT_TRUE(job.failed());
  EXPECT_EQ(job.take_messages().size(), 1u);  // the failure message for rank 0
}

TEST(BootstrapRendezvous, ImpossibleRanksAndSizesAreRefused) {
  const Deadline now = SteadyClock::now();
  Rendezvous job("here", kToken, kOwner, std::nullopt);
  for (const auto& [rank, size] :
       {std::pair{0u, 0u}, {2u, 2u}, {0u, kMaxBootstrapRanks + 1}, {0xffffffffu, 0xffffffffu}}) {
    EXPECT_EQ(job.hello(hello_of(rank, size), kHere, now).admission,
              Rendezvous::Admission::refused);
  }
  Hello stranger = hello_of(0, 2);
  stranger.token[31] ^= std::byte{1};
  EXPECT_EQ(job.hello(stranger, kHere, now).admission, Rendezvous::Admission::refused);
  EXPECT_EQ(job.hello(hello_of(0, 2), kHere, now).admission, Rendezvous::Admission::joined);
}

TEST(BootstrapRendezvous, RendezvousWithMissingRanks_timesOut_andNamesThem) {
  const Deadline now = SteadyClock::now();
  Rendezvous job("here", kToken, kOwner, 4);
  EXPECT_EQ(job.hello(hello_of(0, 4), kHere, now).admission, Rendezvous::Admission::joined);
  EXPECT_EQ(job.next_deadline(), now + std::chrono::seconds(60));
  job.expire(now + std::chrono::seconds(59));
  EXPECT_TRUE(job.take_messages().empty());
  job.expire(now + std::chrono::seconds(60));
  EXPECT_EQ(job.take_messages().size(), 1u);
  EXPECT_TRUE(job.failed());
  const auto late = job.hello(hello_of(2, 4), kHere, now + std::chrono::seconds(61));
  EXPECT_EQ(late.why.message(),
            "ranks 1-3 did not join at here within 60 s: check that all ranks run, or give them a "
            "longer timeout");
}

TEST(BootstrapRendezvous, Hello_afterItsRankTimedOut_isRefused_andTheJobGoesOn) {
  const Deadline now = SteadyClock::now();
  Rendezvous job("here", kToken, kOwner, std::nullopt);
  const auto late = job.hello(hello_of(1, 7, 0), kHere, now);
  EXPECT_EQ(late.admission, Rendezvous::Admission::refused);
  EXPECT_EQ(late.why.to_string(),
            "timeout: rank 1 connected to here after its own timeout of 60 s: start this rank "
            "earlier, or give it a longer timeout");
  EXPECT_EQ(job.hello(hello_of(0, 2), kHere, now).admission, Rendezvous::Admission::joined);
  EXPECT_EQ(job.hello(hello_of(1, 2), kHere, now).admission, Rendezvous::Admission::joined);
  EXPECT_EQ(job.take_messages().size(), 2u);
}

TEST(BootstrapRendezvous, Hello_asRank0WithTheJobsToken_isRefused) {
  const Deadline now = SteadyClock::now();
  Rendezvous job("here", kToken, kOwner, 2);
  Hello stranger = hello_of(0, 2);
  stranger.token = kToken;
  const auto refused = job.hello(stranger, kHere, now);
  EXPECT_EQ(refused.admission, Rendezvous::Admission::refused);
  EXPECT_EQ(refused.why.message(),
            "a process joined the job at here as rank 0, but another process is rank 0 and runs "
            "the store there: give every process a rank of its own");
  EXPECT_EQ(job.hello(hello_of(0, 2), kHere, now).admission, Rendezvous::Admission::joined);
}

TEST(BootstrapRendezvous, RankClaimedTwice_beforeOrAfterTheJobBegins_endsTheJob) {
  const Deadline now = SteadyClock::now();
  const std::string error =
      "rank 1 joined twice at here, from 127.0.0.1:7 and from 10.0.0.9:8: give every process a "
      "rank of its own, or stop the process that does not belong to the job";
  for (const std::uint32_t size : {2u, 3u}) {
    Rendezvous job("here", kToken, kOwner, size);
    EXPECT_EQ(job.hello(hello_of(0, size), kHere, now).admission, Rendezvous::Admission::joined);
    EXPECT_EQ(job.hello(hello_of(1, size), kHere, now).admission, Rendezvous::Admission::joined);
    const bool begun = !job.take_messages().empty();
    EXPECT_EQ(begun, size == 2);
    const auto second = job.hello(hello_of(1, size), "10.0.0.9:8", now);
    EXPECT_EQ(second.admission, Rendezvous::Admission::refused);
    EXPECT_EQ(second.why.message(), error);
    EXPECT_TRUE(job.failed());
    EXPECT_EQ(job.take_messages().size(), begun ? 0u : 2u);
    if (begun) {
      EXPECT_EQ(job.contribute(0, {0, 1000, {}}, now).message(), error);
    }
  }
}

TEST(BootstrapRendezvous, TokenOfRank0_usedByAnotherRank_isRefused) {
  Rendezvous job("here", kToken, kOwner, 2);
  Hello stranger = hello_of(1, 2);
  stranger.token = kOwner;
  EXPECT_EQ(job.hello(stranger, kHere, SteadyClock::now()).admission,
            Rendezvous::Admission::refused);
}

TEST(BootstrapRendezvous, RankThatTimesOutBeforeTheJobBegins_failsAlone_andMayRejoin) {
  const Deadline now = SteadyClock::now();
  const auto seconds = [](int count) { return std::chrono::seconds(count); };
  Rendezvous job("here", kToken, kOwner, 4);
  EXPECT_EQ(job.hello(hello_of(0, 4), kHere, now).admission, Rendezvous::Admission::joined);
  EXPECT_EQ(job.hello(hello_of(1, 4, 5000), kHere, now).admission, Rendezvous::Admission::joined);
  EXPECT_EQ(job.hello(hello_of(2, 4), kHere, now + seconds(1)).admission,
            Rendezvous::Admission::joined);
  job.expire(now + seconds(5));
  const auto told = job.take_messages();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].rank, 1u);
  EXPECT_TRUE(told[0].ends);
  const Bytes& frame = *told[0].frame;
  EXPECT_EQ(decode_failed(std::span(frame).subspan(kFrameHeaderBytes), 4).message(),
            "rank 3 did not join at here within 60 s: check that all ranks run, or give them a "
            "longer timeout");
  EXPECT_FALSE(job.failed());
  EXPECT_EQ(job.next_deadline(), now + seconds(60));
  EXPECT_EQ(job.hello(hello_of(1, 4), kHere, now + seconds(6)).admission,
            Rendezvous::Admission::joined);
  EXPECT_EQ(job.hello(hello_of(3, 4), kHere, now + seconds(7)).admission,
            Rendezvous::Admission::joined);
  EXPECT_EQ(job.take_messages().size(), 4u);
}

TEST(BootstrapRendezvous, TimeoutOfRank0_afterAllRanksJoined_namesTheRanksThatGaveUp) {
  const Deadline now = SteadyClock::now();
  Rendezvous job("here", kToken, kOwner, 3);
  EXPECT_EQ(job.hello(hello_of(1, 3, 1), kHere, now).admission, Rendezvous::Admission::joined);
  job.expire(now + std::chrono::seconds(1));
  EXPECT_EQ(job.hello(hello_of(0, 3), kHere, now).admission, Rendezvous::Admission::joined);
  EXPECT_EQ(job.hello(hello_of(2, 3), kHere, now).admission, Rendezvous::Admission::joined);
  job.take_messages();
  job.expire(now + std::chrono::seconds(60));
  const auto told = job.take_messages();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(
      decode_failed(std::span(*told[0].frame).subspan(kFrameHeaderBytes), 4).message(),
      "rank 1 joined at here but gave up before the other ranks had joined, which waited 60 s: "
      "give all ranks the same timeout");
}

/// A running store for `size` ranks, and raw connections to the store.
class LiveStore : public testing::Test {
 protected:
  void SetUp() override { start(kLong); }

  void start(Nanoseconds hello_timeout) {
    auto server = BootstrapServer::start({.endpoint = {"127.0.0.1", 0},
                                          .name = "the store",
                                          .token = kToken,
                                          .size = 2,
                                          .hello_timeout = hello_timeout});
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    server_ = std::move(*server);
  }

  /// Sends bytes to the store and returns all that the store answers before it closes the
  /// connection.
  Bytes answer_to(std::span<const std::byte> bytes) {
    const Deadline deadline = deadline_after(kLong);
    auto socket = connect_once({"127.0.0.1", server_->port()}, deadline);
    if (!socket.ok()) return bytes_of("not connected");
    Stream stream(std::move(*socket));
    [[maybe_unused]] const Status sent = stream.send_all(bytes, deadline);
    Bytes answer;
    std::byte buffer[4096];
    while (true) {
      const auto got = stream.receive_some(buffer, deadline);
      if (!got.ok() && got.status().code() == Code::timeout) return bytes_of("left open");
      if (!got.ok() || *got == 0) return answer;
      answer.insert(answer.end(), buffer, buffer + *got);
    }
  }

  Status failure_in(const Bytes& answer) {
    FrameDecoder decoder(8192);
    decoder.append(answer);
    auto frame = decoder.take();
    if (!frame.ok() || !*frame || (*frame)->kind != FrameKind::failed) return {};
    return decode_failed((*frame)->payload, 4);
  }

  /// Lets both ranks of the store's job join and exchange; returns "" or a problem for each rank.
  std::vector<std::string> problems_of_the_job() {
    const std::uint16_t port = server_->port();
    return exchange_problems(2, [&](std::uint32_t rank) {
      StoreOptions options;
      options.endpoint = {"127.0.0.1", port};
      options.rank = rank_of(rank);
      options.size = 2;
      options.token = kToken;
      options.timeout = kLong;
      if (rank == 0) options.server = std::move(server_);
      return connect_store(std::move(options));
    });
  }

  std::unique_ptr<BootstrapServer> server_;
};

TEST_F(LiveStore, StrangersAreDroppedWithoutAnAnswer) {
  EXPECT_EQ(answer_to(bytes_of("GET / HTTP/1.1\r\nHost: x\r\n\r\n")), Bytes());
  EXPECT_EQ(answer_to(Bytes(100000, std::byte{0xff})), Bytes());
  EXPECT_EQ(answer_to(encode_gather(0, 0, Bytes(16))), Bytes());
  EXPECT_EQ(answer_to(with_byte(encode(hello_of(0, 2)), 11, 0x7f)), Bytes());
  EXPECT_EQ(answer_to(encode_frame(FrameKind::hello, Bytes(3))), Bytes());
}

TEST_F(LiveStore, ConnectionsWithoutAHelloAreDropped) {
  start(kShort);
  EXPECT_EQ(answer_to({}), Bytes());
  const Bytes hello = encode(hello_of(0, 2));
  EXPECT_EQ(answer_to(std::span(hello).first(20)), Bytes());
}

TEST_F(LiveStore, RefusedRanks_receiveTheReason) {
  Hello stranger = hello_of(0, 2);
  stranger.token = make_job_token("another job").value();
  EXPECT_NE(failure_in(answer_to(encode(stranger))).message().find("another job"),
            std::string::npos);
  EXPECT_NE(failure_in(answer_to(encode(hello_of(1, 3)))).message().find("expects 3 ranks"),
            std::string::npos);
}

TEST_F(LiveStore, OversizedContributionIsRefusedAndDropped) {
  Bytes bytes = encode(hello_of(1, 2));
  const Bytes huge = with_byte(encode_gather(0, 0, {}), 11, 0x7f);
  bytes.insert(bytes.end(), huge.begin(), huge.end());
  EXPECT_EQ(failure_in(answer_to(bytes)).code(), Code::invalid_argument);
}

TEST_F(LiveStore, Job_whileStrangersAreConnected_isServed) {
  std::vector<Socket> silent;
  for (int i = 0; i < 50; ++i) {
    auto socket = connect_once({"127.0.0.1", server_->port()}, deadline_after(kLong));
    ASSERT_TRUE(socket.ok());
    silent.push_back(std::move(*socket));
  }
  EXPECT_EQ(answer_to(bytes_of("noise, and more than a header of it")), Bytes());
  EXPECT_EQ(no_problems(2), problems_of_the_job());
}

TEST_F(LiveStore, Hello_afterItsRankTimedOut_doesNotEndTheJob) {
  EXPECT_EQ(failure_in(answer_to(encode(hello_of(1, 2, 0)))).code(), Code::timeout);
  EXPECT_EQ(failure_in(answer_to(encode(hello_of(1, 2, 1)))).message(),
            "rank 0 did not join at the store within 60 s: check that all ranks run, or give them "
            "a longer timeout");
  EXPECT_EQ(no_problems(2), problems_of_the_job());
}

TEST_F(LiveStore, Hello_asRank0FromAnotherProcess_doesNotEndTheJob) {
  Hello stranger = hello_of(0, 2);
  stranger.token = kToken;
  EXPECT_NE(failure_in(answer_to(encode(stranger))).message().find("runs the store"),
            std::string::npos);
  EXPECT_EQ(no_problems(2), problems_of_the_job());
}

TEST(BootstrapRank, RankConnectedToAWebServer_reportsThatTheServerIsNoStore) {
  const auto listener = listen_on({"127.0.0.1", 0});
  ASSERT_TRUE(listener.ok());
  const std::uint16_t port = *bound_port(*listener);
  std::thread web_server([&] {
    Socket client;
    while (!client.open()) client = Socket(accept(listener->fd(), nullptr, nullptr));
    const Bytes page = bytes_of("HTTP/1.1 400 Bad Request\r\n\r\n");
    EXPECT_TRUE(Stream(std::move(client)).send_all(page, deadline_after(kLong)).ok());
  });
  StoreOptions options;
  options.endpoint = {"127.0.0.1", port};
  options.rank = Rank{1};
  options.size = 2;
  options.timeout = kLong;
  const auto made = connect_store(std::move(options));
  web_server.join();
  EXPECT_EQ(made.status().code(), Code::invalid_argument);
  EXPECT_NE(made.status().message().find("is not a bootstrap store"), std::string::npos)
      << made.status().message();
}

/// The server must end even if the stop comes between two of its polls.
TEST(BootstrapServerStop, StopAtAnyInstantEndsTheServer) {
  for (int round = 0; round < 3000; ++round) {
    auto server =
        BootstrapServer::start({.endpoint = {"127.0.0.1", 0}, .name = "a store", .size = 2});
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    for (int i = 0; i < round % 50; ++i) ::sched_yield();
  }
}

}  // namespace
}  // namespace tutti::runtime::test
