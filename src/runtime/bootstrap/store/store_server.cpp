#include "runtime/bootstrap/store/store_server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <deque>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "crypto/hash.hpp"
#include "device/posix/blocked_signals.hpp"
#include "device/posix/home_process.hpp"
#include "observe/log.hpp"
#include "runtime/bootstrap/store/refusal_log.hpp"
#include "runtime/bootstrap/store/store_state.hpp"
#include "runtime/bootstrap/store/strangers.hpp"
#include "runtime/bootstrap/store/stream.hpp"
#include "runtime/bootstrap/text.hpp"
#include "runtime/keys/key_file.hpp"
#include "runtime/progress/exception_status.hpp"

namespace tutti::runtime {
namespace {

constexpr auto kLinger = std::chrono::seconds(5);
constexpr int kPauseMs = 50;
constexpr auto kTellFailure = std::chrono::seconds(1);
constexpr std::size_t kMaxStrangers = 1024;
/// At most this many connections are accepted before the existing connections are polled again.
constexpr int kMaxAccepts = 64;
constexpr std::size_t kMaxMemberPayloadBytes = Gather::kPrefixBytes + kMaxContributionBytes;

struct Connection {
  Connection(Stream opened, Strangers::Number stranger, Deadline until)
      : stream(std::move(opened)), number(stranger), hello_deadline(until) {}

  Stream stream;
  Strangers::Number number;
  Deadline hello_deadline;
  std::optional<std::uint32_t> rank;  ///< rank of the peer, once it has sent a valid hello
  FrameDecoder decoder{Hello::kBytes};
  std::deque<std::shared_ptr<const Bytes>> outgoing;
  std::size_t sent_bytes = 0;  ///< bytes of the first outgoing frame that were sent
  /// True: reading has ended, and the connection closes once all frames are sent.
  bool closing = false;
  bool broken = false;  ///< true: the connection closes at once

  void tell(std::shared_ptr<const Bytes> frame) { outgoing.push_back(std::move(frame)); }
  void dismiss(Bytes frame) {
    tell(std::make_shared<const Bytes>(std::move(frame)));
    closing = true;
  }
  bool owes_bytes() const { return !outgoing.empty() || stream.owes_bytes(); }
  bool ended() const { return broken || (closing && !owes_bytes()); }
};

void flush(Connection& connection) {
  if (!connection.stream.flush()) connection.broken = true;
  while (!connection.outgoing.empty() && !connection.broken) {
    const Bytes& frame = *connection.outgoing.front();
    const auto sent = connection.stream.send_some(std::span(frame).subspan(connection.sent_bytes));
    if (!sent) connection.broken = true;
    if (!sent || *sent == 0) return;
    connection.sent_bytes += *sent;
    if (connection.sent_bytes < frame.size()) continue;
    connection.outgoing.pop_front();
    connection.sent_bytes = 0;
  }
}

}  // namespace

class BootstrapServer::Loop {
 public:
  Loop(Options options, Socket listener, Socket wake, std::uint16_t port,
       const JobToken& owner_token, std::optional<crypto::Secret> door_key)
      : options_(std::move(options)),
        port_(port),
        listener_(std::move(listener)),
        wake_(std::move(wake)),
        owner_token_(owner_token),
        door_key_(std::move(door_key)),
        strangers_(Strangers::limits(options_.max_strangers == 0 ? kMaxStrangers
                                                                 : options_.max_strangers)),
        refusals_("bootstrap store at " + options_.name, observe::warn),
        rendezvous_(options_.name, options_.token, owner_token_, options_.size) {}

  void start() {
    const device::BlockedSignals blocked;
    thread_ = std::thread([this] { run(); });
  }

  void stop() {
    stopping_.store(true);
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.fd(), &one, sizeof one);
    if (thread_.joinable()) thread_.join();
  }

  std::uint16_t port() const { return port_; }
  const JobToken& owner_token() const { return owner_token_; }
  std::uint64_t refused() const { return refusals_.refused(); }
  const device::HomeProcess& home() const { return home_; }

 private:
  void run();
  /// Polls the sockets once, at most until `latest`. If `wakes` is true, a call of `stop` also ends
  /// the poll.
  void poll_once(Deadline latest, bool wakes);
  /// Calls poll_once. If poll_once throws, the job that this store serves ends with an error.
  void poll_contained(Deadline latest, bool wakes);
  void give_up(const Status& why) noexcept;
  Deadline next_deadline(Deadline now) const;
  void accept_some();
  void drop(Strangers::Number number);
  void refuse(Connection& connection, const std::string& why);
  void turn_away(Connection& connection, const Status& why);
  void close_door();
  void receive(Connection& connection);
  void take_frames(Connection& connection);
  void handle(Connection& connection, Frame frame);
  void admit(Connection& connection, const Hello& hello);
  void deliver();
  void expire();
  void leave(Connection& connection);
  void sweep();
  bool owes_bytes() const;

  device::HomeProcess home_;
  Options options_;
  std::uint16_t port_;
  Listener listener_;
  Socket wake_;
  JobToken owner_token_;
  std::optional<crypto::Secret> door_key_;  ///< nothing: plain TCP
  Strangers strangers_;
  RefusalLog refusals_;
  Rendezvous rendezvous_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::unordered_map<std::uint32_t, Connection*> members_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

void BootstrapServer::Loop::run() {
  while (!stopping_.load()) poll_contained(Deadline::max(), true);
  listener_ = Listener();
  const Deadline end = deadline_after(kLinger);
  while (owes_bytes() && SteadyClock::now() < end) poll_contained(end, false);
  // After a failure, the store still answers for a short time, so that a rank that sends its
  // contribution late learns why the job failed.
  const Deadline told = deadline_after(kTellFailure);
  while (rendezvous_.failed() && !members_.empty() && SteadyClock::now() < told)
    poll_contained(told, false);
}

void BootstrapServer::Loop::poll_contained(Deadline latest, bool wakes) {
  try {
    return poll_once(latest, wakes);
  } catch (...) {
    give_up(status_of_exception());
  }
  // The cause of the exception may be a lack of memory, so the thread pauses before it polls again.
  pollfd pause{wake_.fd(), POLLIN, 0};
  (void)::poll(&pause, wakes ? 1 : 0, kPauseMs);
}

/// Ends the store's job and sends the reason to every rank. A rank gets no reason if there is no
/// memory for the message; its connection is closed nevertheless.
void BootstrapServer::Loop::give_up(const Status& why) noexcept {
  std::shared_ptr<const Bytes> frame;
  try {
    const Status status = failure_from(why, "the store at {}: {}", options_.name, why.message());
    frame = std::make_shared<const Bytes>(encode_failed(status));
    rendezvous_.fail(status);
  } catch (...) {
  }
  for (const auto& connection : connections_) {
    try {
      if (frame && connection->rank) connection->tell(frame);
    } catch (...) {
      connection->broken = true;
    }
    connection->closing = true;
  }
}

bool BootstrapServer::Loop::owes_bytes() const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& connection) { return connection->owes_bytes(); });
}

Deadline BootstrapServer::Loop::next_deadline(Deadline now) const {
  Deadline next = std::min(rendezvous_.next_deadline(), listener_.pause_end(now));
  for (const auto& connection : connections_) {
    if (!connection->rank) next = std::min(next, connection->hello_deadline);
  }
  return next;
}

void BootstrapServer::Loop::poll_once(Deadline latest, bool wakes) {
  sweep();  // after an exception in the previous call, the list may have ended connections
  const Deadline now = SteadyClock::now();
  std::vector<pollfd> entries;
  entries.reserve(connections_.size() + 2);
  // `wakes` is false while the server stops, because the wake-up descriptor is then always readable
  // and would end every poll at once. `wakes` is a parameter, because `stopping_` may have changed
  // since the caller read it.
  entries.push_back({wakes ? wake_.fd() : -1, POLLIN, 0});
  entries.push_back({listener_.poll_fd(now), POLLIN, 0});
  for (const auto& connection : connections_) {
    const int events =
        (connection->closing ? 0 : POLLIN) | (connection->owes_bytes() ? POLLOUT : 0);
    entries.push_back({connection->stream.socket().fd(), static_cast<short>(events), 0});
  }
  const Deadline deadline = std::min(latest, next_deadline(now));
  if (poll(entries.data(), entries.size(), poll_timeout_ms(deadline)) < 0) return;
  // Connections are handled before the listener: if a rank leaves and comes back, the store must
  // first see that it left.
  for (std::size_t i = 0; i + 2 < entries.size(); ++i) {
    Connection& connection = *connections_[i];
    const short events = entries[i + 2].revents;
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) receive(connection);
    if ((events & POLLOUT) != 0) flush(connection);
    // A connection that has ended is removed at once, because the rank may connect again within the
    // same round of polling.
    if (connection.ended()) leave(connection);
  }
  sweep();
  if ((entries[1].revents & POLLIN) != 0) accept_some();
  expire();
  deliver();
  sweep();
  deliver();
  if (rendezvous_.joined() && listener_.open()) close_door();
}

void BootstrapServer::Loop::accept_some() {
  for (int accepts = 0; accepts < kMaxAccepts; ++accepts) {
    Socket socket = listener_.accept();
    if (!socket.open()) return;
    const std::string neighbourhood = neighbourhood_of(socket);
    auto stream =
        Stream::open(std::move(socket), Stream::Role::server, door_key_ ? &*door_key_ : nullptr);
    if (!stream) {
      refusals_.refuse(neighbourhood, stream.status().message(), SteadyClock::now());
      continue;
    }
    connections_.push_back(std::make_unique<Connection>(std::move(*stream),
                                                        strangers_.arrive(neighbourhood),
                                                        deadline_after(options_.hello_timeout)));
    if (const auto surplus = strangers_.surplus()) drop(*surplus);
  }
}

/// Closes the connection of the stranger `number`, because the newest connection exceeds a limit.
void BootstrapServer::Loop::drop(Strangers::Number number) {
  const auto found =
      std::find_if(connections_.begin(), connections_.end(),
                   [number](const auto& connection) { return connection->number == number; });
  refuse(**found, "too many connections have sent no hello: the oldest is closed");
  strangers_.leave(number);
  connections_.erase(found);
}

/// Closes a connection without an answer.
void BootstrapServer::Loop::refuse(Connection& connection, const std::string& why) {
  refusals_.refuse(peer_of(connection.stream.socket()), why, SteadyClock::now());
  connection.broken = true;
}

/// Refuses a stranger whose bytes are not a hello. If only one of store and rank has a job key, the
/// store sends an error that says so, and then closes the connection.
void BootstrapServer::Loop::turn_away(Connection& connection, const Status& why) {
  const auto first = connection.stream.first_byte();
  if (!door_key_ && first == crypto::kTlsFirstByte) {
    connection.dismiss(encode_failed(
        failure(Code::invalid_argument, "this rank has a job key, but the store at {} has none: {}",
                options_.name, kGiveSameKey)));
  } else if (door_key_ && first == kFrameFirstByte && why.code() == Code::unsupported) {
    connection.stream.speak_plainly();
    connection.dismiss(encode_failed(
        failure_of({Rank{0}}, Code::invalid_argument,
                   "rank 0 has a job key but this rank has none, so the store at {} refuses it: {}",
                   options_.name, kGiveSameKey)));
  }
  const bool answered = connection.closing;
  refuse(connection, why.message());
  connection.broken = !answered;
}

/// Ends the listening once all ranks have joined. Later connections are refused by the kernel, so a
/// rank of a later job tries again until that job's store listens.
void BootstrapServer::Loop::close_door() {
  listener_ = Listener();
  for (const auto& connection : connections_) {
    if (!connection->rank && !connection->closing) connection->broken = true;
  }
  sweep();
}

void BootstrapServer::Loop::receive(Connection& connection) {
  std::array<std::byte, 65536> buffer;
  if (connection.closing) connection.broken = true;
  // The loop reads all bytes, because TLS may hold decrypted bytes that poll() does not report.
  while (!connection.closing && !connection.broken) {
    const auto got = connection.stream.receive_some(buffer);
    if (got.ok() && !*got) return;
    if (!got.ok() || **got == 0) {
      const bool began = connection.stream.first_byte().has_value();
      if (connection.rank || (got.ok() && !began)) {
        connection.broken = true;
      } else if (got.ok()) {
        refuse(connection, "the peer closed the connection before its hello");
      } else {
        turn_away(connection, got.status());
      }
      return;
    }
    connection.decoder.append(std::span(buffer).first(**got));
    take_frames(connection);
  }
}

void BootstrapServer::Loop::take_frames(Connection& connection) {
  while (!connection.closing && !connection.broken) {
    auto frame = connection.decoder.take();
    if (!frame.ok()) {
      // The bytes are not a valid frame. If the peer has joined the job, it gets the error; else it
      // is refused as a stranger.
      if (!connection.rank) return turn_away(connection, frame.status());
      return connection.dismiss(encode_failed(frame.status()));
    }
    if (!*frame) return;
    handle(connection, std::move(**frame));
  }
}

void BootstrapServer::Loop::handle(Connection& connection, Frame frame) {
  if (!connection.rank) {
    if (frame.kind == FrameKind::hello) {
      auto hello = decode_hello(frame.payload);
      if (hello.ok()) return admit(connection, *hello);
    }
    return refuse(connection, "its first message is not a hello");
  }
  Result<Gather> gather =
      frame.kind == FrameKind::gather
          ? decode_gather(frame.payload)
          : failure(Code::internal,
                    "rank {} sent the bootstrap store a message of the unexpected kind {}: use the "
                    "same build of Tutti on all ranks",
                    *connection.rank, static_cast<int>(frame.kind));
  const Status status =
      gather.ok() ? rendezvous_.contribute(*connection.rank, std::move(*gather), SteadyClock::now())
                  : gather.status();
  if (!status.ok()) connection.dismiss(encode_failed(status));
}

void BootstrapServer::Loop::admit(Connection& connection, const Hello& hello) {
  const std::string peer = peer_of(connection.stream.socket());
  const Rendezvous::Verdict verdict = rendezvous_.hello(hello, peer, SteadyClock::now());
  if (verdict.admission == Rendezvous::Admission::refused) {
    refusals_.refuse(peer, verdict.why.message(), SteadyClock::now());
    return connection.dismiss(encode_failed(verdict.why));
  }
  if (verdict.admission == Rendezvous::Admission::busy) {
    return connection.dismiss(encode_frame(FrameKind::busy, {}));
  }
  connection.rank = hello.rank;
  strangers_.leave(connection.number);
  connection.decoder.set_max_payload_bytes(kMaxMemberPayloadBytes);
  members_[hello.rank] = &connection;
}

void BootstrapServer::Loop::deliver() {
  for (Rendezvous::Message& message : rendezvous_.take_messages()) {
    const auto member = members_.find(message.rank);
    if (member == members_.end()) continue;
    Connection& connection = *member->second;
    connection.tell(std::move(message.frame));
    if (!message.ends) continue;
    connection.closing = true;
    connection.rank.reset();
    members_.erase(member);
  }
  for (const auto& connection : connections_) flush(*connection);
}

void BootstrapServer::Loop::expire() {
  const Deadline now = SteadyClock::now();
  rendezvous_.expire(now);
  for (const auto& connection : connections_) {
    if (connection->rank || connection->hello_deadline > now) continue;
    if (!connection->closing) {
      refuse(*connection,
             fmt::format("no hello within {}", describe_duration(options_.hello_timeout)));
    }
    connection->broken = true;
  }
}

void BootstrapServer::Loop::leave(Connection& connection) {
  if (!connection.rank) return;
  members_.erase(*connection.rank);
  rendezvous_.leave(*connection.rank);
  connection.rank.reset();
}

void BootstrapServer::Loop::sweep() {
  for (const auto& connection : connections_) {
    if (connection->ended()) leave(*connection);
  }
  std::erase_if(connections_, [this](const auto& connection) {
    if (connection->ended()) strangers_.leave(connection->number);
    return connection->ended();
  });
}

BootstrapServer::BootstrapServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {
  loop_->start();
}

BootstrapServer::~BootstrapServer() {
  if (loop_->home().left()) {
    device::abandon(loop_.release());
  } else {
    loop_->stop();
  }
}

std::uint16_t BootstrapServer::port() const { return loop_->port(); }

const JobToken& BootstrapServer::owner_token() const { return loop_->owner_token(); }

std::uint64_t BootstrapServer::refused() const { return loop_->refused(); }

Result<std::unique_ptr<BootstrapServer>> BootstrapServer::start(Options options) {
  const auto size = options.size.value_or(1);
  if (size == 0 || size > kMaxBootstrapRanks) {
    return failure(Code::invalid_argument, "a job cannot have {} ranks: use 1 to {}", size,
                   kMaxBootstrapRanks);
  }
  auto listener = listen_on(options.endpoint);
  if (!listener.ok()) return listener.status();
  auto port = bound_port(*listener);
  if (!port.ok()) return port.status();
  Socket wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.open()) return system_failure(errno, "creating an event descriptor");
  if (options.name.empty()) {
    const std::string& host = options.endpoint.host;
    options.name = to_string(Endpoint{host.empty() ? reachable_host() : host, *port});
  }
  std::optional<crypto::Secret> door_key;
  if (options.key) {
    auto derived = crypto::derive(*options.key, kStoreDoor);
    if (!derived) return derived.status();
    door_key = std::move(*derived);
  }
  JobToken owner_token;
  if (Status status = crypto::fill_random(owner_token); !status) return status;
  auto loop = std::make_unique<Loop>(std::move(options), std::move(*listener), std::move(wake),
                                     *port, owner_token, std::move(door_key));
  return std::unique_ptr<BootstrapServer>(new BootstrapServer(std::move(loop)));
}

}  // namespace tutti::runtime
