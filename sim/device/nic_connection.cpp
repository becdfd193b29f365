#include "sim/device/nic_connection.hpp"

#include <algorithm>
#include <cstring>

#include "base/circular.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "device/atomics.hpp"

namespace tutti::device::sim {

namespace {

/// True for packets of posted work, false for those of answers.
bool is_request(NicPacketKind kind) {
  return kind == NicPacketKind::send || kind == NicPacketKind::write ||
         kind == NicPacketKind::read_request || kind == NicPacketKind::atomic_request;
}

/// Offers a message to the matcher and stores it in the matched receive; false if none matches.
bool store_matched(NicShared& nic, Rank peer, Instant now, Payload& message) {
  if (nic.matcher == nullptr) return false;
  const auto place = nic.matcher->match(peer, message.bytes(), message.bytes().size());
  if (!place) return false;
  place->store(0, message.bytes());
  nic.completions.push({.opcode = Opcode::matched, .peer = peer, .work_id = place->token},
                       now + nic.settings.receive_latency);
  return true;
}

}  // namespace

std::uint64_t placement_check(const std::byte* at, std::uint64_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(at);
  return mix(first + bytes) - mix(first);
}

// ---- posting ------------------------------------------------------------------------------------

Status NicConnection::post(NicShared& nic, Instant now, const WorkRequest& request) {
  if (failed_) {
    return failure(Code::peer_failed, "the connection to rank {} is lost: abort the communicator",
                   index(peer_));
  }
  const bool send = request.opcode == Opcode::send;
  if (request.opcode > Opcode::fetch_add) {
    return failure(Code::invalid_argument,
                   "a work request with opcode {} for rank {} cannot be posted: use SEND, WRITE, "
                   "WRITE with immediate, READ or an atomic",
                   static_cast<int>(request.opcode), index(peer_));
  }
  if (is_atomic(request.opcode)) {
    if (Status status = check_atomic(request); !status) return status;
    if (nic.settings.big_endian_atomics && !nic.accept_big_endian_atomics) {
      return failure(
          Code::unsupported,
          "an atomic to rank {} cannot be posted, because this NIC returns the results of "
          "atomics in big-endian order: open the endpoint with "
          "accept_big_endian_atomics, and convert each result by old_value()",
          index(peer_));
    }
  }
  if (send && request.local.size() > nic.settings.chunk_bytes) {
    return failure(Code::invalid_argument,
                   "a message of {} bytes to rank {} is too long: use at most {} bytes",
                   request.local.size(), index(peer_), nic.settings.chunk_bytes);
  }
  if (!attentive()) attentive_since_ = now;
  Work work{.opcode = request.opcode,
            .signaled = request.signaled,
            .work_id = request.work_id,
            .local = request.local,
            .key = request.remote_key.key,
            .offset = request.remote_offset,
            .immediate = request.immediate,
            .atomic = request.atomic};
  if (send) {
    work.message = nic.payloads->allocate(request.local.size(), 1);
    if (!request.local.empty()) {
      std::memcpy(work.message->data(), request.local.data(), request.local.size());
    }
  }
  works_.push_back(work);
  return {};
}

// The packets of abandoned work are sent empty, because the peer needs only their sequence numbers.
// The part of a WRITE that is not cut into packets is replaced by one empty packet.
void NicConnection::abandon() {
  for (std::uint32_t i = 0; i < works_.size(); ++i) {
    Work& work = works_[i];
    if (work.code == Code::ok) work.code = Code::aborted;
    work.answered = true;
    if (i >= cut_works_) work.local = work.local.first(i == cut_works_ ? cut_bytes_ : 0);
  }
  for (std::uint32_t i = 0; i < flights_.size(); ++i)
    flights_[i].given_up_after = flights_.size() - 1 - i;
}

void NicConnection::watch(NicShared&, Instant now, bool on) {
  if (on && !attentive()) attentive_since_ = now;
  watched_ = on;
}

// ---- sending ------------------------------------------------------------------------------------

bool NicConnection::may_cut(const NicShared& nic) const {
  if (flights_.size() >= nic.settings.window_packets) return false;
  return !responses_.empty() || cut_works_ < works_.size();
}

bool NicConnection::has_output(const NicShared& nic) const {
  if (failed_) return false;
  return acknowledge_ || ping_ || lost_ > 0 || may_cut(nic);
}

bool NicConnection::next_packet(NicShared& nic, Instant now, NicPacket& packet) {
  if (failed_) return false;
  packet = {};
  packet.destination = peer_;
  if (lost_ > 0 && next_resend(nic, now, packet)) return true;
  if (may_cut(nic)) {
    Flight flight;
    // Responses are sent before this rank's own work requests, because the peer waits for
    // responses.
    responses_.empty() ? cut_work(nic, flight) : cut_response(nic, flight);
    flight.sent = now;
    flights_.push_back(flight);
    packet.sequence = first_flight_ + flights_.size() - 1;
    fill(nic, flights_.back(), packet);
    packet.acknowledge = flight.last || packet.sequence % nic.settings.acknowledge_every == 0 ||
                         flights_.size() >= nic.settings.window_packets;
    stamp(packet);
    return true;
  }
  if (!ping_ && !acknowledge_) return false;
  packet.kind = ping_ ? NicPacketKind::ping : NicPacketKind::acknowledgement;
  if (!ping_) ++nic.acknowledgements_sent;
  ping_ = false;
  stamp(packet);
  return true;
}

bool NicConnection::next_resend(NicShared& nic, Instant now, NicPacket& packet) {
  for (std::uint32_t i = 0; i < flights_.size(); ++i) {
    Flight& flight = flights_[i];
    if (!flight.lost) continue;
    flight.lost = false;
    --lost_;
    flight.sent = now;
    if (flight.resent < 255) ++flight.resent;
    packet.sequence = first_flight_ + i;
    fill(nic, flight, packet);
    packet.acknowledge = true;
    stamp(packet);
    ++nic.counters.reliable_frames_resent;
    return true;
  }
  lost_ = 0;
  return false;
}

void NicConnection::cut_response(const NicShared& nic, Flight& flight) {
  Response& response = responses_.front();
  flight.operation = response.operation;
  if (response.kind != NicPacketKind::read_response) {
    flight.kind = response.kind;
    flight.old_value = response.old_value;
    flight.last = true;
    responses_.pop_front();
    return;
  }
  const std::uint64_t left = response.total - response.position;
  flight.kind = NicPacketKind::read_response;
  flight.length =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(left, nic.settings.chunk_bytes));
  flight.position = response.position;
  flight.key = response.key;
  flight.offset = response.offset + response.position;
  response.position += flight.length;
  flight.last = response.position == response.total;
  if (flight.last) responses_.pop_front();
}

void NicConnection::cut_work(const NicShared& nic, Flight& flight) {
  Work& work = works_[cut_works_];
  flight.operation = first_work_ + cut_works_;
  flight.last = true;
  ++work.unacknowledged;
  if (work.opcode == Opcode::send) {
    flight.kind = NicPacketKind::send;
    flight.length = work.message->size_bytes;
  } else if (work.opcode == Opcode::read) {
    flight.kind = NicPacketKind::read_request;
  } else if (is_atomic(work.opcode)) {
    flight.kind = NicPacketKind::atomic_request;
  } else {
    const std::uint64_t left = work.local.size() - cut_bytes_;
    flight.kind = NicPacketKind::write;
    flight.length =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(left, nic.settings.chunk_bytes));
    flight.position = cut_bytes_;
    cut_bytes_ += flight.length;
    flight.last = cut_bytes_ == work.local.size();
  }
  if (!flight.last) return;
  cut_bytes_ = 0;
  ++cut_works_;
}

void NicConnection::fill(NicShared& nic, Flight& flight, NicPacket& packet) {
  packet.sequenced = true;
  packet.kind = flight.kind;
  packet.last = flight.last;
  packet.operation = flight.operation;
  packet.length = flight.length;
  if (flight.kind == NicPacketKind::read_response) {
    fill_response(nic, flight, packet);
  } else if (flight.kind == NicPacketKind::atomic_answer) {
    packet.argument = flight.old_value;
  } else if (flight.kind != NicPacketKind::refusal) {
    fill_work(nic, flight, packet);
  }
  ++nic.counters.reliable_frames_sent;
  nic.counters.reliable_bytes_sent += packet.length;
}

void NicConnection::fill_work(NicShared& nic, const Flight& flight, NicPacket& packet) {
  Work& work = works_[flight.operation - first_work_];
  if (work.code != Code::ok) {
    packet.kind = NicPacketKind::empty;
    packet.length = 0;
    // The peer may hold later packets of the given-up work already, and must not execute them.
    packet.argument = flight.given_up_after;
    return;
  }
  packet.key = work.key;
  packet.offset = work.offset + flight.position;
  packet.argument = work.immediate;
  packet.immediate = work.opcode == Opcode::write_immediate && flight.last;
  if (flight.kind == NicPacketKind::read_request) packet.total = work.local.size();
  if (flight.kind == NicPacketKind::atomic_request) {
    packet.argument = static_cast<std::uint64_t>(atomic_kind(work.opcode));
    packet.payload = nic.payloads->allocate(sizeof work.atomic, 1);
    std::memcpy(packet.payload->data(), &work.atomic, sizeof work.atomic);
  }
  if (flight.kind == NicPacketKind::send) {
    packet.payload = work.message;
    ++packet.payload->references;
  } else if (flight.kind == NicPacketKind::write && nic.settings.carry_bytes && flight.length > 0) {
    packet.payload = nic.payloads->allocate(flight.length, 1);
    std::memcpy(packet.payload->data(), work.local.data() + flight.position, flight.length);
  }
}

// Each transmission of READ data, also a retransmission, reads the region anew. If the region is no
// longer registered, a refusal is sent instead.
void NicConnection::fill_response(NicShared& nic, Flight& flight, NicPacket& packet) {
  packet.position = flight.position;
  if (flight.length == 0) return;
  const auto memory = nic.regions.resolve(flight.key, flight.offset, flight.length);
  if (!memory) {
    flight.kind = packet.kind = NicPacketKind::refusal;
    flight.length = packet.length = 0;
    return;
  }
  nic.counters.read_bytes_served += flight.length;
  if (!nic.settings.carry_bytes) return;
  packet.payload = nic.payloads->allocate(flight.length, 1);
  std::memcpy(packet.payload->data(), memory->data(), flight.length);
}

void NicConnection::stamp(NicPacket& packet) {
  packet.acknowledged = expected_;
  packet.refused_writes = refused_writes_;
  acknowledge_ = false;
  unacknowledged_arrivals_ = 0;
  for (const NicPacket& early : early_) {
    const std::uint32_t ahead = early.sequence - expected_;
    if (ahead >= 1 && ahead <= 64) packet.selective |= std::uint64_t{1} << (ahead - 1);
  }
}

// ---- receiving ----------------------------------------------------------------------------------

void NicConnection::on_packet(NicShared& nic, Instant now, const NicPacket& packet) {
  if (failed_) {
    nic.payloads->release(packet.payload);
    return;
  }
  last_heard_ = now;
  ++nic.counters.reliable_frames_received;
  on_acknowledged(nic, now, packet);
  if (packet.kind == NicPacketKind::ping) acknowledge_ = true;
  if (!packet.sequenced) return;
  const auto ahead = static_cast<std::int32_t>(packet.sequence - expected_);
  if (ahead == 0) {
    ++expected_;
    acknowledge_ = acknowledge_ || packet.acknowledge ||
                   ++unacknowledged_arrivals_ >= nic.settings.acknowledge_every;
    accept(nic, now, packet);
    if (!early_.empty()) {
      // A packet that fills a gap is acknowledged at once (RFC 5681 4.2), because the packets
      // behind the gap have used up their requests for an ACK.
      acknowledge_ = true;
      run_unexpected(nic, now);
    }
  } else {
    acknowledge_ = true;
    if (ahead > 0) {
      keep_unexpected(nic, packet);
    } else {
      ++nic.counters.reliable_frames_duplicate;
      nic.payloads->release(packet.payload);
    }
  }
  complete_finished(nic, now);
}

void NicConnection::on_acknowledged(NicShared& nic, Instant now, const NicPacket& packet) {
  if (circular_before(refusals_announced_, packet.refused_writes))
    refusals_announced_ = packet.refused_writes;
  const std::uint32_t count = packet.acknowledged - first_flight_;
  if (count > flights_.size()) return;  // the ACK is outdated
  for (std::uint32_t i = 0; i < count; ++i) {
    const Flight& flight = flights_[i];
    if (flight.lost) --lost_;
    if (is_request(flight.kind)) --works_[flight.operation - first_work_].unacknowledged;
  }
  if (count > 0) {
    flights_.drop_front(count);
    first_flight_ += count;
    backoff_ = 0;
    complete_finished(nic, now);
  }
  if (packet.selective != 0) note_gaps(nic, now, packet.selective);
}

void NicConnection::note_gaps(NicShared& nic, Instant now, std::uint64_t selective) {
  const auto highest = static_cast<std::uint32_t>(std::bit_width(selective));
  for (std::uint32_t i = 0; i <= highest && i < flights_.size(); ++i) {
    Flight& flight = flights_[i];
    if (i > 0 && (selective >> (i - 1) & 1) != 0) {
      if (flight.lost) --lost_;
      flight.arrived = true;
      flight.lost = false;
    } else if (!flight.lost && !nic.settings.expect_reordering &&
               (flight.resent == 0 || now - flight.sent >= timeout(nic))) {
      flight.lost = true;
      ++lost_;
    }
  }
}

void NicConnection::keep_unexpected(NicShared& nic, const NicPacket& packet) {
  const bool known = std::any_of(early_.begin(), early_.end(), [&](const NicPacket& one) {
    return one.sequence == packet.sequence;
  });
  if (!known && packet.sequence - expected_ <= 2 * nic.settings.window_packets) {
    early_.push_back(packet);
    return;
  }
  ++nic.counters.reliable_frames_duplicate;
  nic.payloads->release(packet.payload);
}

void NicConnection::run_unexpected(NicShared& nic, Instant now) {
  for (std::size_t i = 0; i < early_.size();) {
    if (early_[i].sequence != expected_) {
      ++i;
      continue;
    }
    const NicPacket packet = early_[i];
    early_[i] = early_.back();
    early_.pop_back();
    ++expected_;
    accept(nic, now, packet);
    i = 0;
  }
}

void NicConnection::accept(NicShared& nic, Instant now, const NicPacket& packet) {
  const bool given_up = given_up_ > 0;
  if (given_up) --given_up_;
  if (given_up && is_request(packet.kind)) {
    nic.payloads->release(packet.payload);
    return;
  }
  switch (packet.kind) {
    case NicPacketKind::send:
      if (store_matched(nic, peer_, now, *packet.payload)) break;
      nic.completions.push({.opcode = Opcode::receive, .peer = peer_},
                           now + nic.settings.receive_latency, packet.payload);
      return;  // the completion queue now owns the reference to the payload
    case NicPacketKind::write:
      accept_write(nic, now, packet);
      break;
    case NicPacketKind::read_request:
      accept_read(nic, packet);
      break;
    case NicPacketKind::read_response:
      accept_answer(nic, packet);
      break;
    case NicPacketKind::atomic_request:
      accept_atomic(nic, packet);
      break;
    case NicPacketKind::atomic_answer:
      accept_old_value(nic, packet);
      break;
    case NicPacketKind::refusal:
      if (Work* work = open_work(packet.operation)) {
        work->code = Code::invalid_argument;
        work->answered = true;
        if (!is_answered(work->opcode)) ++refusals_received_;
      }
      break;
    case NicPacketKind::empty:
      given_up_ = std::max(given_up_, static_cast<std::uint32_t>(packet.argument));
      break;
    case NicPacketKind::acknowledgement:
    case NicPacketKind::ping:
    case NicPacketKind::datagram:
      break;
  }
  nic.payloads->release(packet.payload);
}

void NicConnection::place(NicShared& nic, const NicPacket& packet, std::span<std::byte> to) {
  if (packet.payload != nullptr) {
    std::memcpy(to.data(), packet.payload->data(), to.size());
  } else if (!nic.settings.carry_bytes) {
    nic.placed_check += placement_check(to.data(), to.size());
  }
}

void NicConnection::accept_write(NicShared& nic, Instant now, const NicPacket& packet) {
  const bool refused = refused_operation_ == packet.operation;
  const auto memory = packet.length == 0
                          ? std::span<std::byte>{}
                          : nic.regions.resolve(packet.key, packet.offset, packet.length);
  if (!memory && !refused) {
    refused_operation_ = packet.operation;
    ++refused_writes_;
    responses_.push_back({.kind = NicPacketKind::refusal, .operation = packet.operation});
  }
  if (!memory || refused) return;
  place(nic, packet, *memory);
  if (packet.immediate) {
    nic.completions.push({.opcode = Opcode::receive, .peer = peer_, .immediate = packet.argument},
                         now + nic.settings.receive_latency);
  }
}

void NicConnection::accept_read(NicShared& nic, const NicPacket& packet) {
  Response response{.operation = packet.operation,
                    .key = packet.key,
                    .offset = packet.offset,
                    .total = packet.total};
  if (packet.total > 0 && !nic.regions.resolve(packet.key, packet.offset, packet.total)) {
    response.kind = NicPacketKind::refusal;
  }
  responses_.push_back(response);
}

// The response stores the old value of the atomic, so that a retransmission sends the same old
// value.
void NicConnection::accept_atomic(NicShared& nic, const NicPacket& packet) {
  AtomicOperands operands;
  std::memcpy(&operands, packet.payload->data(), sizeof operands);
  const auto memory = nic.regions.resolve(packet.key, packet.offset, kAtomicBytes);
  const auto old =
      memory ? execute(static_cast<AtomicKind>(packet.argument), *memory, operands) : std::nullopt;
  if (old) ++nic.counters.atomics_served;
  responses_.push_back({.kind = old ? NicPacketKind::atomic_answer : NicPacketKind::refusal,
                        .operation = packet.operation,
                        .old_value = old.value_or(0)});
}

void NicConnection::accept_old_value(const NicShared& nic, const NicPacket& packet) {
  Work* work = open_work(packet.operation);
  if (work == nullptr || !is_atomic(work->opcode) || work->answered) return;
  const std::uint64_t value =
      nic.settings.big_endian_atomics ? __builtin_bswap64(packet.argument) : packet.argument;
  std::memcpy(work->local.data(), &value, sizeof value);
  work->answered = true;
}

NicConnection::Work* NicConnection::open_work(std::uint32_t operation) {
  const std::uint32_t at = operation - first_work_;
  return at < works_.size() ? &works_[at] : nullptr;
}

void NicConnection::accept_answer(NicShared& nic, const NicPacket& packet) {
  Work* work = open_work(packet.operation);
  if (work == nullptr || work->opcode != Opcode::read || work->answered) return;
  if (packet.position + packet.length > work->local.size()) return;
  place(nic, packet, work->local.subspan(packet.position, packet.length));
  work->answered_bytes += packet.length;
  work->answered = work->answered_bytes == work->local.size();
}

void NicConnection::complete_finished(NicShared& nic, Instant now) {
  while (cut_works_ > 0) {
    Work& work = works_.front();
    const bool answered = is_answered(work.opcode);
    if (work.unacknowledged > 0 || (answered && !work.answered)) return;
    // An ACK does not show whether the peer executed or refused a WRITE. The WRITE completes only
    // when all refusals that the peer has counted have arrived, because a missing one may concern
    // this WRITE.
    if (!answered && refusals_received_ != refusals_announced_) return;
    if (work.signaled || answered || work.code != Code::ok) {
      nic.completions.push(
          {.opcode = work.opcode, .code = work.code, .peer = peer_, .work_id = work.work_id},
          now + nic.settings.receive_latency);
    }
    nic.payloads->release(work.message);
    works_.pop_front();
    ++first_work_;
    --cut_works_;
  }
}

// ---- time ---------------------------------------------------------------------------------------

Nanoseconds NicConnection::timeout(const NicShared& nic) const {
  return std::min(
      nic.settings.retransmit_timeout * (std::int64_t{1} << std::min<int>(backoff_, 20)),
      nic.settings.retransmit_timeout_max);
}

Instant NicConnection::next_deadline(const NicShared& nic) const {
  if (failed_ || !attentive()) return kNever;
  Instant deadline = silent_since() + nic.peer_timeout;
  // A packet that is marked lost needs no timer: it is retransmitted as soon as the port is free.
  if (!flights_.empty() && !flights_[0].lost) {
    deadline = std::min(deadline, flights_[0].sent + timeout(nic));
  }
  if (watched_)
    deadline = std::min(deadline, std::max(silent_since(), last_ping_) + ping_interval(nic));
  return deadline;
}

void NicConnection::on_timer(NicShared& nic, Instant now) {
  if (failed_ || !attentive()) return;
  if (now - silent_since() >= nic.peer_timeout) {
    fail(nic, now);
    return;
  }
  if (watched_ && now - std::max(silent_since(), last_ping_) >= ping_interval(nic)) {
    ping_ = true;
    last_ping_ = now;
  }
  if (flights_.empty() || flights_[0].lost || now - flights_[0].sent < timeout(nic)) return;
  for (std::uint32_t i = 0; i < flights_.size(); ++i) {
    Flight& flight = flights_[i];
    if (flight.lost || flight.arrived || now - flight.sent < timeout(nic)) continue;
    flight.lost = true;
    ++lost_;
  }
  if (backoff_ < 20) ++backoff_;
}

void NicConnection::fail(NicShared& nic, Instant now) {
  const Instant visible = now + nic.settings.receive_latency;
  for (std::uint32_t i = 0; i < works_.size(); ++i) {
    const Work& work = works_[i];
    nic.completions.push({.opcode = work.opcode,
                          .code = work.code == Code::ok ? Code::peer_failed : work.code,
                          .peer = peer_,
                          .work_id = work.work_id},
                         visible);
  }
  clear(nic);
  failed_ = true;
  nic.completions.push({.opcode = Opcode::failure, .code = Code::peer_failed, .peer = peer_},
                       visible);
}

void NicConnection::clear(NicShared& nic) {
  for (std::uint32_t i = 0; i < works_.size(); ++i) nic.payloads->release(works_[i].message);
  for (const NicPacket& packet : early_) nic.payloads->release(packet.payload);
  works_.clear();
  flights_.clear();
  responses_.clear();
  early_.clear();
  cut_works_ = lost_ = 0;
  acknowledge_ = ping_ = false;
}

}  // namespace tutti::device::sim
