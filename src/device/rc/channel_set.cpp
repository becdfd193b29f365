#include "device/rc/channel_set.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace tutti::device::rc {

namespace {

/// Pause of the polls, as a part of the peer timeout, that shows that this process was stopped.
constexpr int kStoppedParts = 3;

constexpr Nanoseconds kSignInterval{100'000'000};

/// Number of peers that are asked whether they hear this rank. A question and its answer may be
/// lost, and some of these peers may have died too.
constexpr std::uint32_t kWitnesses = 3;

/// Time after which frames are sent again that found the send queue full.
constexpr Nanoseconds kSendRetry{200'000};

/// The same for frames that were held back, unless an ACK comes before.
constexpr Nanoseconds kHeldBackRetry{1'000'000};

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
    peer.channel = std::make_unique<RcChannel>(rank, config, memory_, counters_);
    open_.push_back(rank);
  }
  return *peer.channel;
}

void ChannelSet::limit_frames(std::uint32_t bytes) {
  config_.max_frame_bytes = std::min(config_.max_frame_bytes, bytes);
  for (const Rank rank : open_) peers_[index(rank)].channel->limit_frames(bytes);
}

void ChannelSet::poll(Instant now, FrameSocket& socket, CompletionSink& sink) {
  for (int i = 0; i < kMaxReceives && socket.receive(now); ++i) {
  }
  poll_posted(now, socket, sink);
}

void ChannelSet::poll_posted(Instant now, FrameSocket& socket, CompletionSink& sink) {
  on_timers(now, sink);
  transmit(now, socket);
  if (!sign_wanted_ || now < next_sign_) return;
  sign_wanted_ = false;
  next_sign_ = now + kSignInterval;
  // After a link's return, address resolution can take a second; multicast needs none.
  socket.send_sign_of_life();
}

void ChannelSet::transmit(Instant now, FrameSocket& socket) {
  held_back_ = false;
  waiting_.reset();
  for (const Priority priority : {Priority::high, Priority::normal, Priority::low}) {
    if (priority != Priority::normal && !prioritised_) continue;
    send_queue_full_ = !transmit(now, socket, priority);
    if (send_queue_full_) return;
  }
}

/// Sends the frames of the channels of one priority; false if the send queue is full.
bool ChannelSet::transmit(Instant now, FrameSocket& socket, Priority priority) {
  for (const Rank rank : open_) {
    RcChannel& one = *peers_[index(rank)].channel;
    const Backlog before = one.backlog();
    if (before.priority != priority) continue;
    std::optional<Allowance> allowance;
    if (gate_ != nullptr && before.frames_wait) allowance = gate_->allowance(before, now);
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
  // An endpoint that waits for a peer polls at least at each ping.
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
    sign_wanted_ |= channel.unanswered();
  }
  if (doubts) question_witnesses();
  // The link of this rank may be up for a moment only, in which the silent peer was not asked.
  if (doubts || answered) question_silent(now);
}

void ChannelSet::question_witnesses() {
  const auto ranks = static_cast<std::uint32_t>(peers_.size());
  for (std::uint32_t i = 1; i <= std::min(kWitnesses + 1, ranks - 1); ++i) {
    (*this)[rank_of((index(me_) + i) % ranks)].question();
  }
}

void ChannelSet::question_silent(Instant now) {
  for (const Rank rank : open_) {
    RcChannel& channel = *peers_[index(rank)].channel;
    if (channel.silence().in_doubt(now)) channel.question();
  }
}

/// With two ranks there is no third one to ask, and the other one is blamed.
bool ChannelSet::alone(const RcChannel& silent) const {
  const Instant begin = silent.silence().doubt_begins();
  const auto answered = [&](Rank rank) { return at(rank).silence().answered_at() >= begin; };
  return peers_.size() > 2 && std::none_of(open_.begin(), open_.end(), answered);
}

void ChannelSet::on_probe(Instant now, const Completion& probe, CompletionSink& sink) {
  const auto& channel = peers_[index(probe.peer)].channel;
  if (channel) channel->on_heard(now);
  sink.push(probe);
}

Status ChannelSet::post(Instant now, const WorkRequest& request) {
  if (index(request.peer) >= peers_.size() || request.peer == me_) {
    return failure(Code::invalid_argument,
                   "rank {} is not a peer of rank {}: use another one of the {} ranks",
                   index(request.peer), index(me_), peers_.size());
  }
  prioritised_ |= request.priority != Priority::normal;
  return (*this)[request.peer].post(now, request);
}

void ChannelSet::abandon() {
  for (const Rank rank : open_) peers_[index(rank)].channel->abandon();
}

bool ChannelSet::quiet() const {
  return std::all_of(open_.begin(), open_.end(), [this](Rank rank) { return at(rank).quiet(); });
}

Instant ChannelSet::next_deadline() const {
  // No event tells that the send queue has room again, and frames that were not sent have no timer.
  Instant deadline = send_queue_full_ ? last_poll_ + kSendRetry
                     : held_back_     ? last_poll_ + kHeldBackRetry
                                      : kNever;
  for (const Rank rank : open_) deadline = std::min(deadline, at(rank).next_deadline());
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
  counters.rejected_foreign += counters_.rejected_malformed + counters_.rejected_incarnation;
}

}  // namespace tutti::device::rc
