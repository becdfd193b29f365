#include "device/rc/channel_set.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace tutti::device::rc {

namespace {

/// If the pause between two polls is longer than the peer timeout divided by this number, this
/// process was stopped or not scheduled.
constexpr int kStoppedParts = 3;

/// Time between two multicast signs of life, and between two answers to a peer's dropped frames.
constexpr Nanoseconds kSignInterval{100'000'000};

/// Number of peers, besides the silent one, that are questioned to learn whether they receive this
/// rank's packets. One peer is not enough: a question or an answer may be lost, and the questioned
/// peer may have died, too.
constexpr std::uint32_t kWitnesses = 3;

/// Time after which frames that found the send queue full are tried again.
constexpr Nanoseconds kSendRetry{200'000};

/// Time after which frames that the gate held back are tried again, unless an ACK arrives first.
constexpr Nanoseconds kHeldBackRetry{1'000'000};

/// Time after which a ping to a peer without a connection is tried again, if no connection could be
/// opened for it.
constexpr Nanoseconds kPingRetry{1'000'000};

}  // namespace

Status ChannelSet::configure(const RcConfig& config) {
  config_ = config;
  return check(config_);
}

RcChannel& ChannelSet::operator[](Rank rank) {
  Peer& peer = peers_[index(rank)];
  if (!peer.channel) {
    RcConfig config = config_;
    config.peer_incarnation = peer.incarnation;
    // A message keeps its connection open until the ACK arrives.
    if (limited()) config.reply_wait = Nanoseconds(0);
    open_.reserve(open_.size() + 1);
    peer.channel = std::make_unique<RcChannel>(rank, config, memory_, counters_, peer.position);
    if (peer.released) peer.channel->release();
    open_.push_back(rank);
    ++counters_.connections_made;
    counters_.connections_high_water =
        std::max<std::uint64_t>(counters_.connections_high_water, open_.size());
  }
  return *peer.channel;
}

// ---- limited connections ------------------------------------------------------------------------

/// Returns the channel to a peer and makes it if necessary; null if all connections are in use.
RcChannel* ChannelSet::open(Instant now, Rank rank) {
  Peer& peer = peers_[index(rank)];
  if (!peer.channel) {
    if (limited() && !make_room()) return nullptr;
    RcChannel& made = (*this)[rank];
    // The silence of the peer includes the time in which the connection was closed.
    if (peer.watched)
      made.watch(true,
                 std::min(now, peer.ping_at) - PeerTimeout::ping_interval(config_.peer_timeout));
    peer.ping_at = kNever;
  }
  peer.used = now;
  return peer.channel.get();
}

/// Makes room for a connection, if necessary by closing the least recently used one that has no
/// traffic; false if no connection can be closed.
bool ChannelSet::make_room() {
  if (open_.size() < limits_.most) return true;
  const auto before = [this](Rank a, Rank b) {
    const auto key = [this](Rank one) {
      return std::pair(!at(one).resting_position().has_value(), peers_[index(one)].used);
    };
    return key(a) < key(b);
  };
  const Rank oldest = *std::min_element(open_.begin(), open_.end(), before);
  return close(oldest);
}

/// Closes a connection; false if it cannot close now.
bool ChannelSet::close(Rank rank) {
  Peer& peer = peers_[index(rank)];
  const auto position = peer.channel->resting_position();
  if (!position) return false;
  peer.position = *position;
  if (peer.watched) peer.ping_at = peer.channel->silence().ping_at();
  peer.answered = std::max(peer.answered, peer.channel->silence().answered_at());
  peer.channel.reset();
  std::erase(open_, rank);
  ++counters_.connections_closed;
  return true;
}

/// True if this rank may post work to one more peer, or ping it.
bool ChannelSet::may_ask_another(Instant now) const {
  const auto asked =
      std::count_if(open_.begin(), open_.end(), [&](Rank rank) { return at(rank).asks(now); });
  return asked < static_cast<std::ptrdiff_t>(work_limit());
}

/// Reopens a closed connection if a ping to its watched peer is due, and closes idle connections.
void ChannelSet::serve_closed(Instant now) {
  for (std::uint32_t r = 0; r < peers_.size(); ++r) {
    Peer& peer = peers_[r];
    if (peer.ping_at > now) continue;
    if (!may_ask_another(now) || open(now, rank_of(r)) == nullptr) {
      peer.ping_at = now + kPingRetry;
    }
  }
  for (std::size_t i = open_.size(); i-- > 0;) {
    const Rank rank = open_[i];
    if (now - peers_[index(rank)].used >= limits_.idle) close(rank);
  }
}

void ChannelSet::on_frame(Instant now, Rank source, std::span<const std::byte> bytes,
                          CompletionSink& sink) {
  if (RcChannel* channel = open(now, source)) return channel->on_frame(now, bytes, sink);
  ++counters_.frames_without_connection;
  Peer& peer = peers_[index(source)];
  if (now < peer.next_probe) return;
  dropped_.push_back(source);
  peer.next_probe = now + kSignInterval;
}

void ChannelSet::watch(Instant now, Rank rank, bool on) {
  Peer& peer = peers_[index(rank)];
  peer.watched = on;
  if (!peer.channel && (limited() || !on)) {
    peer.ping_at = on ? now + PeerTimeout::ping_interval(config_.peer_timeout) : kNever;
  } else {
    (*this)[rank].watch(on, now);
  }
}

void ChannelSet::release_peer(Rank rank) {
  Peer& peer = peers_[index(rank)];
  peer.released = true;
  if (peer.channel) peer.channel->release();
}

// A closed connection needs no path test, because it has no frames in flight.
void ChannelSet::test_path(Rank peer) {
  if (!limited() || peers_[index(peer)].channel) (*this)[peer].test_path();
}

// ---- polling ------------------------------------------------------------------------------------

void ChannelSet::limit_frames(std::uint32_t bytes) {
  config_.max_frame_bytes = std::min(config_.max_frame_bytes, bytes);
  for (const Rank rank : open_) peers_[index(rank)].channel->limit_frames(bytes);
}

void ChannelSet::poll(Instant now, FrameSocket& socket, CompletionSink& sink) {
  if (untransmitted_) transmit(now, socket, Turn::before_receives);
  for (int i = 0; i < kMaxReceives && socket.receive(now); ++i) {
  }
  poll_posted(now, socket, sink);
}

void ChannelSet::poll_posted(Instant now, FrameSocket& socket, CompletionSink& sink) {
  on_timers(now, sink);
  if (sign_wanted_ && now >= next_sign_) {
    sign_wanted_ = false;
    next_sign_ = now + kSignInterval;
    // The sign of life is multicast: when a link comes back, address resolution can delay unicast
    // by a second, but not multicast.
    socket.send_sign_of_life();
  }
  for (const Rank rank : dropped_) socket.probe_path(rank, 0);
  dropped_.clear();
  transmit(now, socket, Turn::after_receives);
}

void ChannelSet::transmit(Instant now, FrameSocket& socket, Turn turn) {
  held_back_ = untransmitted_ = false;
  waiting_.reset();
  for (const Priority priority : {Priority::high, Priority::normal, Priority::low}) {
    if (priority != Priority::normal && !prioritised_) continue;
    send_queue_full_ = !transmit(now, socket, turn, priority);
    if (send_queue_full_) return;
  }
}

/// Sends the frames of the channels of one priority; false if the send queue is full.
bool ChannelSet::transmit(Instant now, FrameSocket& socket, Turn turn, Priority priority) {
  for (const Rank rank : open_) {
    RcChannel& one = *peers_[index(rank)].channel;
    const Backlog before = one.backlog();
    if (before.priority != priority) continue;
    std::optional<Allowance> allowance;
    if (gate_ != nullptr && before.frames_wait) allowance = gate_->allowance(before, now);
    if (allowance && turn == Turn::before_receives) continue;
    one.hold_back(allowance);
    const bool room = !one.has_output(now) || socket.send(now, rank, one);
    const Backlog after = one.backlog();
    if (!waiting_ && (!room || after.window_closed)) waiting_ = priority;
    if (!room) return false;
    if (!allowance || !after.frames_wait) continue;
    ++counters_.rounds_held_back;
    held_back_ = true;
  }
  return true;
}

void ChannelSet::on_timers(Instant now, CompletionSink& sink) {
  // An endpoint that waits for a peer polls at least once in each ping interval, so a longer pause
  // shows that this process was stopped.
  const bool stopped = now - last_poll_ > config_.peer_timeout / kStoppedParts;
  last_poll_ = now;
  bool doubts = false;
  bool answered = false;
  for (const Rank rank : open_) {
    RcChannel& channel = *peers_[index(rank)].channel;
    if (stopped) channel.forgive_silence(now);
    answered |= channel.silence().answered_at() == now;
    if (channel.next_deadline() > now) continue;
    const bool lost = channel.silence().expired(now);
    doubts |= channel.on_timer(now, sink, lost && alone(channel));
    sign_wanted_ |= channel.unanswered(now);
  }
  if (limited()) serve_closed(now);
  if (doubts) question_witnesses(now);
  // An answer shows that the link of this rank is up, perhaps only briefly, so the silent peers are
  // questioned at once.
  if (doubts || answered) question_silent(now);
}

void ChannelSet::question_witnesses(Instant now) {
  const auto ranks = static_cast<std::uint32_t>(peers_.size());
  std::uint32_t questioned = 0;
  for (std::uint32_t i = 1; i < ranks && questioned <= kWitnesses; ++i) {
    const Rank rank = rank_of((index(me_) + i) % ranks);
    if (peers_[index(rank)].released) continue;
    if (RcChannel* witness = open(now, rank)) witness->question();
    ++questioned;
  }
}

void ChannelSet::question_silent(Instant now) {
  for (const Rank rank : open_) {
    RcChannel& channel = *peers_[index(rank)].channel;
    if (channel.silence().in_doubt(now)) channel.question();
  }
}

/// True if no peer has answered a question since the last part of `silent`'s peer timeout began
/// (PeerTimeout::doubt_begins). With two ranks the result is false, because there is no third rank
/// to question; `silent` is then blamed.
bool ChannelSet::alone(const RcChannel& silent) const {
  const Instant begin = silent.silence().doubt_begins();
  const auto answered = [&](const Peer& peer) {
    return peer.answered >= begin ||
           (peer.channel && peer.channel->silence().answered_at() >= begin);
  };
  return peers_.size() > 2 && std::none_of(peers_.begin(), peers_.end(), answered);
}

void ChannelSet::on_probe(Instant now, const Completion& probe, CompletionSink& sink) {
  Peer& peer = peers_[index(probe.peer)];
  if (peer.channel) peer.channel->on_heard(now);
  if (peer.ping_at != kNever) peer.ping_at = now + PeerTimeout::ping_interval(config_.peer_timeout);
  sink.push(probe);
}

Status ChannelSet::post(Instant now, const WorkRequest& request) {
  if (index(request.peer) >= peers_.size() || request.peer == me_) {
    return failure(Code::invalid_argument,
                   "rank {1} cannot post work for rank {0}: name a different rank, below {2}",
                   index(request.peer), index(me_), peers_.size());
  }
  prioritised_ |= request.priority != Priority::normal;
  const Peer& peer = peers_[index(request.peer)];
  // The peer may have missed frames that an earlier connection sent. It would then execute no frame
  // of a new connection, because it executes frames in order.
  if (peer.released && !peer.channel) return closed_status(request.peer);
  RcChannel* const channel = channel_for_work(now, request.peer);
  if (channel == nullptr) {
    return failure(
        Code::resource_exhausted,
        "rank {} has no free connection for work to rank {} (at most {} may be open, and at most "
        "{} may carry work at a time): await completions before posting this work",
        index(me_), index(request.peer), limits_.most, work_limit());
  }
  Status posted = channel->post(now, request);
  untransmitted_ |= posted.ok();
  return posted;
}

/// The channel for work of this rank; null if all connections for such work are in use.
RcChannel* ChannelSet::channel_for_work(Instant now, Rank rank) {
  if (!limited()) return &(*this)[rank];
  const Peer& peer = peers_[index(rank)];
  const bool goes_on = peer.channel && (peer.channel->failed() || peer.channel->asks(now));
  return goes_on || may_ask_another(now) ? open(now, rank) : nullptr;
}

void ChannelSet::abandon() {
  // The connection limit ends now, because this rank has to notify all other ranks of the failure.
  // A connection to a peer that has already left never gets its ACK and stays open; under the limit
  // it could keep this rank from notifying another peer.
  limits_.most = 0;
  for (const Rank rank : open_) peers_[index(rank)].channel->abandon();
}

bool ChannelSet::quiet() const {
  return std::all_of(open_.begin(), open_.end(), [this](Rank rank) { return at(rank).quiet(); });
}

Instant ChannelSet::next_deadline() const {
  if (untransmitted_) return last_poll_;
  // No event reports that the send queue has room again, and unsent frames have no timer, so they
  // are tried again after a fixed time.
  Instant deadline = send_queue_full_ ? last_poll_ + kSendRetry
                     : held_back_     ? last_poll_ + kHeldBackRetry
                                      : kNever;
  for (const Rank rank : open_) deadline = std::min(deadline, at(rank).next_deadline());
  if (!limited()) return deadline;
  for (const Peer& peer : peers_) {
    deadline = std::min(deadline, peer.ping_at);
    if (peer.channel && peer.channel->resting_position())
      deadline = std::min(deadline, peer.used + limits_.idle);
  }
  return deadline;
}

void ChannelSet::add_to(EndpointCounters& counters) const {
  counters.reliable_frames_sent += counters_.frames_sent;
  counters.reliable_frames_resent += counters_.frames_resent;
  counters.reliable_timeouts += counters_.timeouts;
  counters.reliable_tail_probes += counters_.tail_probes;
  counters.reliable_frames_received += counters_.frames_received;
  counters.reliable_frames_duplicate += counters_.frames_duplicate;
  counters.reliable_bytes_sent += counters_.bytes_sent;
  counters.reliable_rounds_held_back += counters_.rounds_held_back;
  counters.read_bytes_served += counters_.read_bytes_served;
  counters.atomics_served += counters_.atomics_served;
  counters.connections_open += open_.size();
  counters.connections_made += counters_.connections_made;
  counters.connections_closed += counters_.connections_closed;
  counters.connections_high_water += counters_.connections_high_water;
  counters.frames_without_connection += counters_.frames_without_connection;
  counters.rejected_foreign += counters_.rejected_malformed + counters_.rejected_incarnation;
}

}  // namespace tutti::device::rc
