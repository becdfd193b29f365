// Tests the door of an aggregator, which is the TCP port at which it listens: how the aggregator
// refuses strangers (connections that belong to no job yet), and how it counts and logs refusals.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "aggregated_job.hpp"
#include "runtime/aggregator/aggregator_connection.hpp"
#include "runtime/bootstrap/unique_id.hpp"
#include "stream_end.hpp"

namespace tutti::runtime {
namespace {

class AggregatorDoor : public testing::Test {
 protected:
  void start(Nanoseconds hello_timeout = kPatience, std::size_t max_strangers = 128,
             Nanoseconds begin_timeout = kPatience) {
    AggregatorOptions options;
    options.listen = {"127.0.0.1", 0};
    options.key = service_key();
    options.terms = kSmall;
    options.hello_timeout = hello_timeout;
    options.begin_timeout = begin_timeout;
    options.max_strangers = max_strangers;
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
      if (!unloggable_.empty() && line.find(unloggable_) != std::string::npos) {
        throw std::bad_alloc();
      }
    };
    auto service = AggregatorService::start(std::move(options));
    ASSERT_TRUE(service.ok()) << service.status().to_string();
    service_ = std::move(*service);
  }

  Stream visit() {
    auto socket = connect_once({"127.0.0.1", service_->port()}, deadline_after(kPatience));
    EXPECT_TRUE(socket.ok()) << socket.status().to_string();
    return socket ? Stream(std::move(*socket)) : Stream();
  }
  std::uint64_t refused() { return counters_of(*service_)["connections_refused"]; }
  void await_refused(std::uint64_t count) {
    while (refused() < count) std::this_thread::yield();
  }
  /// Waits until a line of the aggregator's log contains `text`, and returns the first such line.
  std::string await_line(const std::string& text) {
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        for (const std::string& line : lines_) {
          if (line.find(text) != std::string::npos) return line;
        }
      }
      std::this_thread::yield();
    }
  }
  /// Sends the aggregator a join request for the job `job`. The job never begins, because its ranks
  /// do not exist.
  Status ask(const std::string& job, const ServiceKey& key) {
    const Deadline deadline = deadline_after(kPatience);
    auto connection = AggregatorConnection::open(address_of(*service_), key, deadline);
    if (!connection) return connection.status();
    return connection->ask(request("tutti1/x", job), deadline).status();
  }
  JoinRequest request(const std::string& unique_id, const std::string& job) {
    return {.unique_id = unique_id,
            .address = address_of(*service_),
            .job = job,
            .ranks = 2,
            .options = patient()};
  }

  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::string unloggable_;  ///< the log throws for a line with this text; empty: never
  std::unique_ptr<AggregatorService> service_;
};

bool ends(Stream& stream) { return tutti::test::ends(stream, deadline_after(kPatience)); }

TEST_F(AggregatorDoor, JobWithAnotherKey_isRefusedWithTheReason_andCounted) {
  start();
  const Status status = ask("h:1", service_key("another key, long enough"));
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("has a different key"), std::string::npos) << status.message();
  await_refused(1);
  EXPECT_NE(await_line("is refused").find("another key"), std::string::npos);
  EXPECT_TRUE(ask("h:1", service_key()).ok());
}

TEST_F(AggregatorDoor, NameOfAJob_isEscapedInTheLog) {
  start();
  EXPECT_TRUE(ask("h:1\njob forged has left\x1b[2J", service_key()).ok());
  const std::string line = await_line("is dropped");
  EXPECT_EQ(line.find("job h:1\\x0ajob forged has left\\x1b[2J is dropped"), 0u) << line;
}

TEST_F(AggregatorDoor, JobWhoseThreadRunsOutOfMemory_isDropped_andLaterJobsAreServed) {
  for (const char* step : {"joins", "is dropped"}) {
    unloggable_ = step;
    start();
    EXPECT_TRUE(ask("h:1", service_key()).ok());
    await_line(step);
    while (service_->jobs() > 0) std::this_thread::yield();
    EXPECT_TRUE(ask("h:2", service_key()).ok());
    await_line(std::string("job h:2 of 2 ranks joins"));
    service_.reset();
    lines_.clear();
  }
}

TEST_F(AggregatorDoor, StrangerWhoseThreadRunsOutOfMemory_endsAlone) {
  unloggable_ = "is refused";
  start();
  Stream plain = visit();
  EXPECT_TRUE(plain.send_all(Bytes(3000, std::byte{0x5a}), deadline_after(kPatience)).ok());
  EXPECT_TRUE(ends(plain));
  await_line("is refused");
  EXPECT_TRUE(ask("h:1", service_key()).ok());
}

TEST_F(AggregatorDoor, ConnectionWithoutTlsOrWithATruncatedHello_isRefused_andCounted) {
  start();
  Stream plain = visit();
  EXPECT_TRUE(plain.send_all(Bytes(3000, std::byte{0x5a}), deadline_after(kPatience)).ok());
  EXPECT_TRUE(ends(plain));
  await_refused(1);
  const auto door_key = door_key_of(service_key());
  auto session = crypto::TlsSession::begin(crypto::TlsSession::Role::client, *door_key);
  const Bytes hello = session->take_output();
  Stream cut = visit();
  EXPECT_TRUE(
      cut.send_all(std::span(hello).first(hello.size() / 2), deadline_after(kPatience)).ok());
  ::shutdown(cut.socket().fd(), SHUT_WR);
  EXPECT_TRUE(ends(cut));
  await_refused(2);
}

TEST_F(AggregatorDoor, SilentStranger_isDroppedAfterTheTimeLimit) {
  start(std::chrono::milliseconds(200));
  Stream silent = visit();
  EXPECT_TRUE(ends(silent));
  await_refused(1);
}

TEST_F(AggregatorDoor, StrangersBeyondTheLimit_areDropped_andAJobIsServed) {
  start(kPatience, 8);
  std::vector<Stream> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(visit());
  await_refused(300 - 6);  // one address may hold 6 of the 8 places for strangers
  EXPECT_TRUE(ask("h:1", service_key()).ok());
  // The log limits its lines about refusals, but the counter counts every refusal.
  const std::lock_guard lock(mutex_);
  EXPECT_LT(lines_.size(), 290u);
}

TEST_F(AggregatorDoor, ServiceThatEnds_closesTheConnectionsOfStrangers) {
  start();
  std::vector<Stream> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(visit());
  service_.reset();
  for (Stream& stranger : strangers) EXPECT_TRUE(ends(stranger));
}

TEST_F(AggregatorDoor, AdmittedJobThatHasNotBegun_endsWithTheService) {
  start(kPatience, 128, std::chrono::hours(1));
  const Deadline deadline = deadline_after(kPatience);
  auto connection = AggregatorConnection::open(address_of(*service_), service_key(), deadline);
  ASSERT_TRUE(connection.ok()) << connection.status().to_string();
  ASSERT_TRUE(connection->ask(request("tutti1/x", "h:1"), deadline).ok());
  service_.reset();
  EXPECT_EQ(await_line("is dropped"), "job h:1 is dropped: the aggregator was stopped");
}

TEST_F(AggregatorDoor, JobWhoseRanksDoNotJoin_isDroppedAfterTheTimeLimitOfTheAggregator) {
  start(kPatience, 128, std::chrono::seconds(1));
  const auto id = make_unique_id();
  ASSERT_TRUE(id.ok()) << id.status().to_string();
  JoinRequest join = request({id->data(), id->size() - 1}, "h:1");
  join.options.create_timeout = std::chrono::hours(1);
  const Deadline deadline = deadline_after(kPatience);
  auto connection = AggregatorConnection::open(address_of(*service_), service_key(), deadline);
  ASSERT_TRUE(connection.ok()) << connection.status().to_string();
  ASSERT_TRUE(connection->ask(join, deadline).ok());
  ASSERT_TRUE(connection->go(deadline).ok());
  EXPECT_NE(await_line("is dropped").find("ranks 0, 1 did not join"), std::string::npos);
  discard_unique_id(*id);
}

}  // namespace
}  // namespace tutti::runtime
