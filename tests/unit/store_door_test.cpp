// Tests the TCP port ("door") of a bootstrap store: jobs with a key over TLS, the bytes that an
// eavesdropper sees, and connections that do not belong to the job ("strangers"). The strangers
// have no key, send nothing, or come in large numbers.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <thread>

#include "bootstrap_ranks.hpp"
#include "crypto/hash.hpp"
#include "runtime/bootstrap/store/store_client.hpp"
#include "runtime/bootstrap/store/stream.hpp"
#include "stream_end.hpp"

namespace tutti::runtime::test {
namespace {

const JobToken kToken = make_job_token("a job").value();
const std::string kContribution = "the contribution of a rank, which is secret";

using Key = std::optional<crypto::Secret>;

Key key_of(int value) {
  Key key(std::in_place);
  std::fill(key->writable().begin(), key->writable().end(), static_cast<std::byte>(value));
  return key;
}

Key copy_of(const Key& key) { return key ? Key(key->copy()) : Key(); }

bool contains(std::span<const std::byte> bytes, std::span<const std::byte> part) {
  return std::search(bytes.begin(), bytes.end(), part.begin(), part.end()) != bytes.end();
}

std::size_t descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

/// A store that listens at a free port.
class Door {
 public:
  explicit Door(const Key& key, std::uint32_t size = 2, Nanoseconds hello_timeout = kLong,
                std::size_t max_strangers = 0) {
    auto server = BootstrapServer::start({.endpoint = {"127.0.0.1", 0},
                                          .name = "the store",
                                          .token = kToken,
                                          .size = size,
                                          .key = copy_of(key),
                                          .hello_timeout = hello_timeout,
                                          .max_strangers = max_strangers});
    EXPECT_TRUE(server.ok()) << server.status().to_string();
    server_ = std::move(*server);
    watched_ = server_.get();
    port_ = server_->port();
    size_ = size;
  }

  std::uint16_t port() const { return port_; }
  /// The number of connections that the store has refused. Valid only while the store exists; rank
  /// 0 owns the store once rank 0 has joined.
  std::uint64_t refused() const { return watched_->refused(); }
  /// Waits until the store has refused `count` connections.
  void await_refused(std::uint64_t count) const {
    while (refused() < count) std::this_thread::yield();
  }

  Made join(std::uint32_t rank, const Key& key, std::uint16_t port) {
    StoreOptions options;
    options.endpoint = {"127.0.0.1", port};
    options.rank = rank_of(rank);
    options.size = size_;
    options.token = kToken;
    options.method = "test";
    options.timeout = kLong;
    options.key = copy_of(key);
    if (rank == 0) options.server = std::move(server_);
    return connect_store(std::move(options));
  }
  Made join(std::uint32_t rank, const Key& key) { return join(rank, key, port_); }

  std::vector<std::string> problems_of_the_job(const Key& key) {
    return exchange_problems(size_, [&](std::uint32_t rank) { return join(rank, key); });
  }

  Stream visit() const {
    auto socket = connect_once({"127.0.0.1", port_}, deadline_after(kLong));
    EXPECT_TRUE(socket.ok()) << socket.status().to_string();
    return socket ? Stream(std::move(*socket)) : Stream();
  }

 private:
  std::unique_ptr<BootstrapServer> server_;
  const BootstrapServer* watched_ = nullptr;
  std::uint16_t port_ = 0;
  std::uint32_t size_ = 0;
};

bool ends(Stream& stream) { return tutti::test::ends(stream, deadline_after(kLong)); }

/// A proxy between one rank and the store. It forwards and records all bytes.
class Listening {
 public:
  explicit Listening(std::uint16_t store) {
    auto listener = listen_on({"127.0.0.1", 0});
    EXPECT_TRUE(listener.ok());
    port_ = bound_port(*listener).value();
    thread_ = std::thread([this, store, from = std::move(*listener)] {
      pollfd entry{from.fd(), POLLIN, 0};
      ::poll(&entry, 1, -1);
      const Socket rank(::accept(from.fd(), nullptr, nullptr));
      const auto onward = connect_once({"127.0.0.1", store}, deadline_after(kLong));
      EXPECT_TRUE(onward.ok());
      while (pass(rank, *onward, up_) && pass(*onward, rank, down_)) {
        std::array<pollfd, 2> both{{{rank.fd(), POLLIN, 0}, {onward->fd(), POLLIN, 0}}};
        ::poll(both.data(), both.size(), -1);
      }
    });
  }
  std::uint16_t port() const { return port_; }
  void join() { thread_.join(); }
  const Bytes& up() const { return up_; }      ///< bytes that the rank sent; valid after join()
  const Bytes& down() const { return down_; }  ///< bytes that the store sent; valid after join()

 private:
  /// Forwards the bytes that have arrived; false at the end of the stream.
  static bool pass(const Socket& from, const Socket& to, Bytes& record) {
    std::array<std::byte, 4096> buffer;
    const ssize_t got = ::recv(from.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN;
    const auto bytes = std::span(buffer).first(static_cast<std::size_t>(got));
    record.insert(record.end(), bytes.begin(), bytes.end());
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t some = ::send(to.fd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (some > 0) sent += static_cast<std::size_t>(some);
      if (some < 0 && errno != EAGAIN) return false;
    }
    return got > 0;
  }

  std::uint16_t port_ = 0;
  std::thread thread_;
  Bytes up_;
  Bytes down_;
};

/// Runs a job of two ranks. Rank 1 connects to the port of `way` instead of the port of the store.
void run_job_through(Listening& way, Door& door, const Key& key) {
  const auto problems = on_ranks(2, [&](std::uint32_t rank) -> std::string {
    auto bootstrap = door.join(rank, key, rank == 0 ? door.port() : way.port());
    if (!bootstrap.ok()) return bootstrap.status().to_string();
    const auto all = (*bootstrap)->allgather(bytes_of(kContribution), kLong);
    if (!all.ok()) return all.status().to_string();
    return (*all)[1 - rank] == bytes_of(kContribution) ? "" : "another contribution";
  });
  EXPECT_EQ(no_problems(2), problems);
  way.join();
}

TEST(StoreDoor, RanksWithAKey_exchangeOverTls) {
  for (const std::uint32_t size : {2u, 3u, 8u}) {
    Door door(key_of(1), size);
    EXPECT_EQ(no_problems(size), door.problems_of_the_job(key_of(1)));
  }
}

TEST(StoreDoor, LongContributions_arriveCompleteOverTls) {
  Door door(key_of(1), 3);
  const auto sizes = on_ranks(3, [&](std::uint32_t rank) -> std::size_t {
    auto bootstrap = door.join(rank, key_of(1));
    if (!bootstrap.ok()) return 0;
    const Bytes mine(std::size_t{3} << 20, std::byte(rank + 1));
    const auto all = (*bootstrap)->allgather(mine, kLong);
    return all.ok() && (*all)[rank] == mine && (*all)[2][7] == std::byte{3} ? (*all)[0].size() : 0;
  });
  EXPECT_EQ(sizes, std::vector<std::size_t>(3, std::size_t{3} << 20));
}

TEST(StoreDoor, Eavesdropper_ofAJobWithAKey_seesNeitherTokenNorContribution) {
  for (const bool keyed : {true, false}) {
    const Key key = keyed ? key_of(1) : Key();
    Door door(key);
    Listening way(door.port());
    run_job_through(way, door, key);
    // Without a key, the recorded bytes must contain the token and the contributions, which shows
    // that the proxy records all bytes.
    EXPECT_EQ(contains(way.up(), kToken), !keyed);
    EXPECT_EQ(contains(way.up(), bytes_of(kContribution)), !keyed);
    EXPECT_EQ(contains(way.down(), bytes_of(kContribution)), !keyed);
    EXPECT_FALSE(contains(way.up(), key_of(1)->bytes()));
    EXPECT_FALSE(contains(way.down(), key_of(1)->bytes()));
  }
}

TEST(StoreDoor, ReplayedBytesOfARank_areRefused) {
  const Key key = key_of(1);
  Door recorded(key);
  Listening way(recorded.port());
  run_job_through(way, recorded, key);
  Door door(key);
  Stream replay = door.visit();
  EXPECT_TRUE(replay.send_all(way.up(), deadline_after(kLong)).ok());
  EXPECT_TRUE(ends(replay));
  door.await_refused(1);
  EXPECT_EQ(no_problems(2), door.problems_of_the_job(key));
}

TEST(StoreDoor, RankWithAnotherKey_getsAKeyErrorAtOnce_andTheJobGoesOn) {
  Door door(key_of(1));
  const Status status = door.join(1, key_of(2)).status();
  EXPECT_EQ(status.to_string(),
            "invalid_argument: the job key of rank 1 differs from that of rank 0, whose bootstrap "
            "store is at 127.0.0.1:" +
                std::to_string(door.port()) +
                ": give all ranks the same key file (TUTTI_JOB_KEY_FILE) or the same job_key");
  EXPECT_EQ(status.ranks().size(), 2u);
  door.await_refused(1);
  EXPECT_EQ(door.refused(), 1u);
  EXPECT_EQ(no_problems(2), door.problems_of_the_job(key_of(1)));
}

TEST(StoreDoor, RankWithoutAKey_isToldAtOnceThatRank0HasOne) {
  Door door(key_of(1));
  const Status status = door.join(1, {}).status();
  EXPECT_EQ(status.to_string(),
            "invalid_argument: rank 0 has a job key but this rank has none, so the store at the "
            "store refuses it: give all ranks the same key file (TUTTI_JOB_KEY_FILE) or the same "
            "job_key");
  door.await_refused(1);
  EXPECT_EQ(door.refused(), 1u);
  EXPECT_EQ(no_problems(2), door.problems_of_the_job(key_of(1)));
}

TEST(StoreDoor, RankWithAKey_isToldAtOnceThatRank0HasNone) {
  Door door({});
  const Status status = door.join(1, key_of(1)).status();
  EXPECT_EQ(status.to_string(),
            "invalid_argument: rank 1 has a job key but rank 0, whose bootstrap store is at "
            "127.0.0.1:" +
                std::to_string(door.port()) +
                ", has none: give all ranks the same key file (TUTTI_JOB_KEY_FILE) or the same "
                "job_key");
  door.await_refused(1);
  EXPECT_EQ(door.refused(), 1u);
  EXPECT_EQ(no_problems(2), door.problems_of_the_job({}));
}

TEST(StoreDoor, StrangerWithoutTheKey_getsNoAnswer_andIsCounted) {
  Door door(key_of(1));
  Stream stranger = door.visit();
  EXPECT_TRUE(stranger.send_all(bytes_of("GET / HTTP/1.1\r\n\r\n"), deadline_after(kLong)).ok());
  std::byte buffer[100];
  const auto got = stranger.receive_some(buffer, deadline_after(kLong));
  EXPECT_TRUE(!got.ok() || *got == 0);
  door.await_refused(1);
  EXPECT_EQ(door.refused(), 1u);
  EXPECT_EQ(no_problems(2), door.problems_of_the_job(key_of(1)));
}

/// The first message of a client with the key.
Bytes client_hello() {
  const auto door_key = crypto::derive(*key_of(1), kStoreDoor);
  auto session = crypto::TlsSession::begin(crypto::TlsSession::Role::client, *door_key);
  return session->take_output();
}

TEST(StoreDoor, TruncatedHandshake_isRefused) {
  const Bytes hello = client_hello();
  Door door(key_of(1));
  std::uint64_t refused = 0;
  for (const std::size_t size : {std::size_t{1}, hello.size() / 2, hello.size()}) {
    Stream stranger = door.visit();
    EXPECT_TRUE(stranger.send_all(std::span(hello).first(size), deadline_after(kLong)).ok());
    ::shutdown(stranger.socket().fd(), SHUT_WR);
    EXPECT_TRUE(ends(stranger)) << size;
    door.await_refused(++refused);
    EXPECT_EQ(door.refused(), refused);
  }
  EXPECT_EQ(no_problems(2), door.problems_of_the_job(key_of(1)));
}

TEST(StoreDoor, ConnectionWithoutACompleteHello_isDroppedAfterATimeLimit) {
  const Bytes hello = client_hello();
  Door door(key_of(1), 2, kShort);
  Stream slow = door.visit();
  Stream silent = door.visit();
  // The last byte of the hello is never sent, so the hello stays incomplete on any machine.
  for (std::size_t i = 0; i + 1 < hello.size(); ++i) {
    if (!slow.send_all(std::span(hello).subspan(i, 1), deadline_after(kLong)).ok()) break;
  }
  EXPECT_TRUE(ends(slow));
  EXPECT_TRUE(ends(silent));
  door.await_refused(2);
}

TEST(StoreDoor, StrangersBeyondTheLimit_areDropped_andTakeNoFileDescriptors) {
  Door door(key_of(1), 2, kLong, 16);
  const std::size_t before = descriptors();
  std::vector<Stream> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(door.visit());
  door.await_refused(200 - 12);  // one address may hold 12 of the 16 places for strangers
  EXPECT_LE(descriptors(), before + 200 + 16);
  EXPECT_EQ(door.refused(), 200u - 12u);
  EXPECT_EQ(no_problems(2), door.problems_of_the_job(key_of(1)));
}

TEST(StoreDoor, RanksOfAHost_connectingTogether_areAllAdmitted) {
  constexpr std::uint32_t kRanks = 256;
  Door door(key_of(1), kRanks);
  std::vector<std::unique_ptr<Bootstrap>> ranks(kRanks);
  const auto problems = on_ranks(kRanks, [&](std::uint32_t rank) -> std::string {
    auto bootstrap = door.join(rank, key_of(1));
    if (!bootstrap.ok()) return bootstrap.status().to_string();
    ranks[rank] = std::move(*bootstrap);
    const auto all = ranks[rank]->allgather(bytes_of("x"), kLong);
    return all.ok() ? "" : all.status().to_string();
  });
  EXPECT_EQ(no_problems(kRanks), problems);
  EXPECT_EQ(door.refused(), 0u);
}

TEST(StoreDoor, Flood_ofSilentAndSlowStrangers_doesNotKeepTheRanksOut) {
  constexpr std::size_t kStrangers = 5000;
  constexpr std::size_t kAdmitted = 300;
  constexpr std::uint32_t kRanks = 8;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_GE(limit.rlim_max, 6000u) << "this test needs 6000 descriptors: raise the hard limit";
  const Bytes hello = client_hello();
  Door door(key_of(1), kRanks, std::chrono::seconds(2), kAdmitted);
  std::vector<Stream> strangers;  // holds the connections open until the job is complete
  std::atomic<bool> all_are_there = false;
  std::thread flood([&] {
    for (std::size_t i = 0; i < kStrangers; ++i) {
      strangers.push_back(door.visit());
      const auto part = std::span(hello).first(i % 2 == 0 ? 0 : i % 100);
      (void)strangers.back().send_all(part, deadline_after(kLong));
    }
    all_are_there = true;
    all_are_there.notify_all();
  });
  // The last rank joins after the last stranger has connected, because the door closes once all
  // ranks have joined.
  const auto problems = exchange_problems(kRanks, [&](std::uint32_t rank) {
    if (rank == kRanks - 1) {
      all_are_there.wait(false);
      door.await_refused(kStrangers - kAdmitted);
    }
    return door.join(rank, key_of(1));
  });
  EXPECT_EQ(no_problems(kRanks), problems);
  flood.join();
}

TEST(StoreDoor, ListeningSocket_isClosedOnceAllRanksHaveJoined) {
  for (const bool keyed : {true, false}) {
    const Key key = keyed ? key_of(1) : Key();
    Door door(key);
    Stream early = door.visit();
    std::vector<std::unique_ptr<Bootstrap>> ranks(2);
    const auto problems = on_ranks(2, [&](std::uint32_t rank) -> std::string {
      auto bootstrap = door.join(rank, key);
      if (!bootstrap.ok()) return bootstrap.status().to_string();
      ranks[rank] = std::move(*bootstrap);
      return ranks[rank]->allgather({}, kLong).status().ok() ? "" : "no exchange";
    });
    EXPECT_EQ(no_problems(2), problems);
    EXPECT_TRUE(ends(early));
    const auto late = connect_once({"127.0.0.1", door.port()}, deadline_after(kLong));
    EXPECT_EQ(late.status().code(), Code::system) << late.status().to_string();
  }
}

}  // namespace
}  // namespace tutti::runtime::test
