#include "runtime/bootstrap/store/store_client.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <thread>

#include "base/error.hpp"
#include "crypto/hash.hpp"
#include "runtime/bootstrap/store/stream.hpp"
#include "runtime/bootstrap/text.hpp"
#include "runtime/keys/key_file.hpp"

namespace tutti::runtime {
namespace {

/// Time for which a rank still waits for the store after the rank's deadline has passed, because
/// only the store can name the missing ranks.
constexpr auto kAnswerTime = std::chrono::seconds(2);
constexpr auto kLongestTry = std::chrono::seconds(5);
constexpr auto kFirstPause = std::chrono::milliseconds(5);
constexpr auto kLongestPause = std::chrono::milliseconds(250);

std::uint32_t to_ms(Nanoseconds duration) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ms, 0, INT_MAX));
}

/// A connection to the store that sends and receives whole frames.
class StoreConnection {
 public:
  StoreConnection(Stream stream, std::size_t max_payload_bytes)
      : stream_(std::move(stream)), decoder_(max_payload_bytes) {}

  Status send(std::span<const std::byte> frame, Deadline deadline) {
    return stream_.send_all(frame, deadline);
  }

  std::optional<std::byte> first_byte() const { return stream_.first_byte(); }

  Result<Frame> receive(Deadline deadline) {
    std::array<std::byte, 65536> buffer;
    while (true) {
      auto frame = decoder_.take();
      if (!frame.ok()) return frame.status();
      if (*frame) return std::move(**frame);
      auto got = stream_.receive_some(buffer, deadline);
      if (!got.ok()) return got.status();
      if (*got == 0) return failure(Code::peer_failed, "the bootstrap store closed the connection");
      decoder_.append(std::span(buffer).first(*got));
    }
  }

 private:
  Stream stream_;
  FrameDecoder decoder_;
};

class StoreBootstrap : public Bootstrap {
 public:
  StoreBootstrap(StoreOptions options, StoreConnection connection)
      : options_(std::move(options)), connection_(std::move(connection)) {}

  Rank rank() const override { return options_.rank; }
  std::uint32_t size() const override { return options_.size; }
  std::string description() const override {
    return options_.method + " at " + to_string(options_.endpoint);
  }
  const crypto::Secret* key() const override { return options_.key ? &*options_.key : nullptr; }

  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine,
                                       Nanoseconds timeout) override {
    if (!failed_.ok()) return failed_;
    if (mine.size() > kMaxContributionBytes) {
      return failure(Code::invalid_argument,
                     "rank {} contributes {} bytes to the bootstrap: contribute at most {} bytes",
                     index(options_.rank), mine.size(), kMaxContributionBytes);
    }
    auto result = exchange(mine, timeout);
    if (!result.ok()) failed_ = result.status();
    return result;
  }

 private:
  Result<std::vector<Bytes>> exchange(std::span<const std::byte> mine, Nanoseconds timeout) {
    const Deadline deadline = deadline_after(timeout) + kAnswerTime;
    const Status sent = connection_.send(encode_gather(exchange_, to_ms(timeout), mine), deadline);
    // A store that fails sends the reason before it closes the connection, so the client still
    // reads after a failed send.
    if (sent.code() == Code::timeout) return lost(sent, timeout);
    auto frame = connection_.receive(deadline);
    if (!frame.ok()) return lost(frame.status(), timeout);
    if (frame->kind == FrameKind::failed) return decode_failed(frame->payload, options_.size);
    if (frame->kind != FrameKind::result) {
      return failure(Code::internal,
                     "the bootstrap store answered an exchange with a message of the unexpected "
                     "kind {}: use the same build of Tutti on all ranks",
                     static_cast<int>(frame->kind));
    }
    return decode_result(frame->payload, exchange_++, options_.size);
  }

  Status lost(const Status& why, Nanoseconds timeout) const {
    const std::string store = to_string(options_.endpoint);
    if (why.code() == Code::timeout) {
      return failure_of({Rank{0}}, Code::timeout,
                        "rank 0, whose bootstrap store is at {}, did not answer rank {} within "
                        "{}: check that rank 0 runs and can be reached",
                        store, index(options_.rank), describe_duration(timeout));
    }
    return failure_of(
        {Rank{0}}, why.code(),
        "rank {} lost its connection to rank 0, whose bootstrap store is at {}, in exchange {}: {}",
        index(options_.rank), store, exchange_, why.message());
  }

  StoreOptions options_;
  StoreConnection connection_;
  std::uint32_t exchange_ = 0;
  Status failed_;
};

class SingleBootstrap : public Bootstrap {
 public:
  explicit SingleBootstrap(std::string description) : description_(std::move(description)) {}
  Rank rank() const override { return Rank{0}; }
  std::uint32_t size() const override { return 1; }
  std::string description() const override { return description_; }
  Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine, Nanoseconds) override {
    return std::vector<Bytes>{Bytes(mine.begin(), mine.end())};
  }

 private:
  std::string description_;
};

/// The reason why one attempt to join failed.
struct Setback {
  bool final = false;  ///< true: another attempt would fail, too
  Status why;
};

std::optional<crypto::Secret> copy_of(const std::optional<crypto::Secret>& key) {
  if (!key) return std::nullopt;
  return key->copy();
}

std::size_t max_answer_bytes(std::uint32_t size) {
  return std::max<std::size_t>(8192, 4 + std::size_t{4} * size + kMaxExchangeBytes);
}

/// The reason why an attempt to join failed before the store answered the hello. If the connection
/// was closed or timed out, another attempt may succeed, because the store of an earlier job may
/// have just ended.
Setback setback_of(const StoreOptions& options, const StoreConnection& connection,
                   const Status& why) {
  if (why.code() == Code::peer_failed || why.code() == Code::timeout) return {false, why};
  const std::uint32_t rank = index(options.rank);
  const std::string store = to_string(options.endpoint);
  if (options.key && connection.first_byte() == kFrameFirstByte) {
    return {true, failure_of({options.rank, Rank{0}}, Code::invalid_argument,
                             "rank {} has a job key but rank 0, whose bootstrap store is at {}, "
                             "has none: {}",
                             rank, store, kGiveSameKey)};
  }
  if (options.key && why.code() == Code::invalid_argument) {
    return {true, failure_of({options.rank, Rank{0}}, Code::invalid_argument,
                             "the job key of rank {} differs from that of rank 0, whose bootstrap "
                             "store is at {}: {}",
                             rank, store, kGiveSameKey)};
  }
  return {true, failure(options.key ? Code::invalid_argument : why.code(),
                        "the process that answers rank {} at {} is not a bootstrap store{}: {}",
                        rank, store, options.key ? " with a job key" : "", why.message())};
}

std::optional<StoreConnection> try_to_join(const StoreOptions& options,
                                           const crypto::Secret* door_key, Deadline deadline,
                                           Setback& setback) {
  const Deadline try_until = std::min(deadline, SteadyClock::now() + kLongestTry);
  auto socket = connect_once(options.endpoint, try_until);
  if (!socket.ok()) {
    setback = {false, socket.status()};
    return std::nullopt;
  }
  auto stream = Stream::open(std::move(*socket), Stream::Role::client, door_key);
  if (!stream) {
    setback = {true, stream.status()};
    return std::nullopt;
  }
  StoreConnection connection(std::move(*stream), max_answer_bytes(options.size));
  const bool owner = index(options.rank) == 0;
  const Hello hello{index(options.rank), options.size, to_ms(options.timeout),
                    to_ms(deadline - SteadyClock::now()),
                    owner ? options.server->owner_token() : options.token};
  // An error of the send is ignored: the receive then returns the reason that the store has sent,
  // or fails as well.
  [[maybe_unused]] const Status sent = connection.send(encode(hello), deadline);
  auto frame = connection.receive(deadline + kAnswerTime);
  if (!frame.ok()) {
    setback = setback_of(options, connection, frame.status());
    return std::nullopt;
  }
  if (frame->kind == FrameKind::welcome) return connection;
  if (frame->kind == FrameKind::busy) {
    setback = {false,
               failure(Code::timeout, "rank 0 still serves its previous job at this address")};
  } else if (frame->kind == FrameKind::failed) {
    setback = {true, decode_failed(frame->payload, options.size)};
  } else {
    setback = {true, failure(Code::internal,
                             "the bootstrap store answered a join with a message of the unexpected "
                             "kind {}: use the same build of Tutti on all ranks",
                             static_cast<int>(frame->kind))};
  }
  return std::nullopt;
}

Status unreachable(const StoreOptions& options, const Status& why) {
  return failure_of(
      {Rank{0}}, Code::timeout,
      "rank {} could not join rank 0 at {} within {} ({}): check that rank 0 is running "
      "and has this address",
      index(options.rank), to_string(options.endpoint), describe_duration(options.timeout),
      why.message());
}

}  // namespace

Status check_place(Rank rank, std::uint32_t size) {
  if (size >= 1 && size <= kMaxBootstrapRanks && index(rank) < size) return {};
  return failure(Code::invalid_argument,
                 "rank {} of {} ranks is not possible: use 1 to {} ranks, and number them from 0",
                 index(rank), size, kMaxBootstrapRanks);
}

std::unique_ptr<Bootstrap> make_single_bootstrap(std::string description) {
  return std::make_unique<SingleBootstrap>(std::move(description));
}

Result<std::unique_ptr<Bootstrap>> connect_store(StoreOptions options) {
  Status status = check_place(options.rank, options.size);
  if (!status.ok()) return status;
  if (options.size == 1) {
    return make_single_bootstrap(options.method + " (a single rank)");
  }
  std::optional<crypto::Secret> door_key;
  if (options.key) {
    auto derived = crypto::derive(*options.key, kStoreDoor);
    if (!derived) return derived.status();
    door_key = std::move(*derived);
  }
  const Deadline deadline = deadline_after(options.timeout);
  if (index(options.rank) == 0 && !options.server) {
    auto server = BootstrapServer::start({.endpoint = options.endpoint,
                                          .name = to_string(options.endpoint),
                                          .token = options.token,
                                          .size = options.size,
                                          .key = copy_of(options.key)});
    if (!server.ok()) return server.status();
    options.server = std::move(*server);
  }
  Nanoseconds pause = kFirstPause;
  while (true) {
    Setback setback;
    auto connection = try_to_join(options, door_key ? &*door_key : nullptr, deadline, setback);
    if (connection) {
      return std::unique_ptr<Bootstrap>(
          std::make_unique<StoreBootstrap>(std::move(options), std::move(*connection)));
    }
    if (setback.final) return setback.why;
    if (SteadyClock::now() + pause >= deadline) return unreachable(options, setback.why);
    std::this_thread::sleep_for(pause);
    pause = std::min<Nanoseconds>(2 * pause, kLongestPause);
  }
}

}  // namespace tutti::runtime
