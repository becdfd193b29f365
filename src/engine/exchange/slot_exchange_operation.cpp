#include "engine/exchange/slot_exchange_operation.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "engine/core/communicator_context.hpp"

namespace tutti::engine {

namespace {

using Flow = device::ExchangeHeader::Flow;

constexpr const char* kAlgorithm = "linear";
// After this time, a rank watches the ranks whose entries it misses. Watching costs messages, and
// an exchange takes this long only if a rank still computes or has died.
constexpr Nanoseconds kWatchAfter{1'000'000};
// Interval at which a root that is several exchanges ahead checks whether slow ranks have read its
// slots. On a device that loses no entries, no event reports that.
constexpr Nanoseconds kSlotBusyRetry{20'000};
constexpr Nanoseconds kUnsentRetry{200'000};
// On a device that loses entries, a missing entry is requested after this time, which is longer
// than the usual delay of a rank on a busy core.
constexpr Nanoseconds kRequestAfter{2'000'000};
constexpr Nanoseconds kRequestIntervalMax{100'000'000};

constexpr Flow flow_of(Collective collective) {
  switch (collective) {
    case Collective::broadcast:
      return Flow::root_to_all;
    case Collective::gather:
      return Flow::all_to_root;
    default:
      return Flow::all_to_all;
  }
}

/// Describes in words the call that an exchange header names. A peer sent the header, so its fields
/// may have any value.
std::string text_of(const device::ExchangeHeader& header) {
  const char* const name = header.purpose < kCollectives
                               ? to_string(static_cast<Collective>(header.purpose))
                               : "an unknown collective";
  std::string text = fmt::format("{} of {} bytes", name, header.block_bytes);
  if (header.root != kNoRank) text += fmt::format(", root {}", index(header.root));
  return text;
}

}  // namespace

bool SlotExchangeOperation::serves(Collective collective) {
  return collective == Collective::barrier || collective == Collective::broadcast ||
         collective == Collective::allgather || collective == Collective::gather;
}

std::unique_ptr<SlotExchangeOperation> SlotExchangeOperation::create(const CollectiveCall& call,
                                                                     Rank me) {
  const bool at_root = call.root == me;
  const bool broadcasts = call.collective == Collective::broadcast;
  const bool receives = call.collective != Collective::gather || at_root;
  std::span<const std::byte> own = call.send;
  if (broadcasts) own = at_root ? call.receive : std::span<std::byte>();
  const Rank root = has_root(call.collective) ? call.root : kNoRank;
  const device::ExchangeHeader header{
      .flow = flow_of(call.collective),
      .purpose = static_cast<std::uint8_t>(call.collective),
      .root = root,
      .block_bytes = broadcasts ? call.receive.size() : call.send.size()};
  const Description description{to_string(call.collective), kAlgorithm, root,
                                std::max(call.send.size(), call.receive.size())};
  return std::unique_ptr<SlotExchangeOperation>(new SlotExchangeOperation(
      description, header, own, receives ? call.receive : std::span<std::byte>()));
}

SlotExchangeOperation::SlotExchangeOperation(Description description,
                                             const device::ExchangeHeader& header,
                                             std::span<const std::byte> own,
                                             std::span<std::byte> receive)
    : Operation(description), header_(header), own_(own), receive_(receive) {}

void SlotExchangeOperation::start(Instant now, bool) {
  polled_at_ = now;
  watch_at_ = now + kWatchAfter;
  ++context().counters().slot_exchanges;
  context().recorder().enter(epoch(), observe::Phase::data, now);
  completion()->chunks_total = 1;
  slot_exchange_ = context().endpoint().slot_exchange();
  if (Status entered = slot_exchange_->enter(header_, own_); !entered) {
    return context().failures().fail(entered);
  }
  if (slot_exchange_->loses()) {
    request_after_ = kRequestAfter;
    request_at_ = now + request_after_;
    if (slot_exchange_->slot_busy()) context().slots().request_acks(now);
  }
  // The receive buffer holds the blocks of all ranks in rank order, so this rank's block is copied
  // to its position there.
  if (collective() == Collective::broadcast || receive_.empty()) return;
  std::byte* const place = &receive_[index(context().rank()) * own_.size()];
  if (place != own_.data()) std::memcpy(place, own_.data(), own_.size());
}

bool SlotExchangeOperation::poll(Instant now) {
  if (over_) return false;
  polled_at_ = now;
  const std::span<const device::SlotEntry> entries = slot_exchange_->collect();
  bool worked = !entries.empty();
  if (!take_all(entries)) return true;
  if (now >= restore_at_ && take_requested()) {
    worked = true;
    if (!take_all(slot_exchange_->collect())) return true;
  }
  if (slot_exchange_->complete()) {
    slot_exchange_->leave();
    judge_sources(now);
    over_ = true;
    completion()->chunks_present.store(1, std::memory_order_relaxed);
    return true;
  }
  // On a device that loses no entries, an entry is visible before the message that its rank closes.
  if (!slot_exchange_->loses() && context().closing().any_closed() && fail_if_closed()) return true;
  if (now >= watch_at_) watch_missing();
  if (now >= request_at_) request_missing(now);
  return worked;
}

bool SlotExchangeOperation::take_all(std::span<const device::SlotEntry> entries) {
  return std::all_of(entries.begin(), entries.end(),
                     [this](const device::SlotEntry& entry) { return take(entry); });
}

/// Stores a part of a requested entry. Once all parts have arrived, the entry is used: at once if
/// multicast is lost, otherwise after the reordering allowance, because the entry's multicast may
/// still arrive.
void SlotExchangeOperation::on_data(Instant now, Rank from, std::uint32_t slot,
                                    std::span<const std::byte> payload) {
  const std::uint32_t part = slot & ~SlotRecovery::kLastPart;
  const std::size_t most = slot_exchange_ == nullptr ? 0 : 2 * slot_exchange_->max_block_bytes();
  auto known = std::find_if(requested_.begin(), requested_.end(),
                            [from](const Requested& one) { return one.from == from; });
  const bool first = known == requested_.end();
  if (requests_ == 0 || part > SlotRecovery::kLastPart || first != (part == 0) ||
      (!first && known->whole) || payload.size() > most ||
      (!first && known->bytes.size() + payload.size() > most)) {
    return Operation::on_data(polled_at_, from, slot, payload);
  }
  if (first) known = requested_.insert(requested_.end(), {from, {}, false});
  known->bytes.insert(known->bytes.end(), payload.begin(), payload.end());
  known->whole = (slot & SlotRecovery::kLastPart) != 0;
  if (!known->whole) return;
  const bool lost = context().receiver().membership().lost();
  restore_at_ = std::min(restore_at_, lost ? now : now + context().settings().reorder_delay);
}

/// Hands each complete requested entry to the slot exchange, which ignores the entry if it has
/// meanwhile arrived by multicast.
bool SlotExchangeOperation::take_requested() {
  restore_at_ = kNever;
  bool any = false;
  for (Requested& one : requested_) {
    if (!one.whole || one.bytes.empty()) continue;
    if (slot_exchange_->restore(one.from, one.bytes)) {
      restored_.push_back(one.from);
      any = true;
    }
    one.bytes.clear();
  }
  return any;
}

/// Tells GroupMembership from which ranks entries came by multicast. An entry for a root alone may
/// have come by unicast, which proves nothing about multicast.
void SlotExchangeOperation::judge_sources(Instant now) {
  GroupMembership& membership = context().receiver().membership();
  if (header_.flow == Flow::all_to_root || (restored_.empty() && !membership.suspects())) return;
  std::vector<Rank> sources;
  header_.list_sources(context().rank(), context().size(), sources);
  for (const Rank source : sources) {
    if (std::find(restored_.begin(), restored_.end(), source) == restored_.end()) {
      membership.heard(source);
    } else {
      membership.missed(source, 1);
    }
  }
  membership.judge(now);
}

bool SlotExchangeOperation::take(const device::SlotEntry& entry) {
  if (entry.header != header_) {
    context().failures().fail(context().failures().misfit(
        entry.from, Code::invalid_argument,
        "{} called {}, but {} called {}: call the same collective with the same "
        "size and root on all ranks",
        context().names().of(entry.from), text_of(entry.header),
        context().names().of(context().rank()), text_of(header_)));
    return false;
  }
  if (entry.block.empty()) return true;
  const std::size_t at =
      collective() == Collective::broadcast ? 0 : index(entry.from) * header_.block_bytes;
  std::memcpy(&receive_[at], entry.block.data(), entry.block.size());
  return true;
}

/// Fails the communicator and returns true if a rank has closed whose entry is missing, or whose
/// ACK would free this rank's slot.
bool SlotExchangeOperation::fail_if_closed() {
  const auto fail_for = [this](std::span<const Rank> ranks, const char* lack) {
    const Rank closed = context().closing().first_closed(ranks);
    if (closed == kNoRank) return false;
    context().failures().fail_because(failure_of(
        context().names().in_job({closed}), Code::peer_failed,
        "{} has closed its communicator, but {}: call the same collectives on all ranks before "
        "closing",
        context().names().of(closed), lack));
    return true;
  };
  if (fail_for(slot_exchange_->missing(), "its message of this collective has not arrived"))
    return true;
  return slot_exchange_->slot_busy() &&
         fail_for(slot_exchange_->awaited_acks(), "it has not taken part in an earlier collective");
}

/// Requests entries that are lost or late. If this rank's slot is still busy, also requests the
/// ACKs that free it.
void SlotExchangeOperation::request_missing(Instant now) {
  if (fail_if_closed()) return;
  request_at_ = now + request_after_;
  request_after_ = std::min(2 * request_after_, kRequestIntervalMax);
  if (slot_exchange_->slot_busy()) context().slots().request_acks(now);
  // From the second request on, the entries come over the reliable connection, because the network
  // may drop multicast.
  const bool reliably = requests_++ > 0 || context().receiver().membership().lost();
  context().slots().request_entries(
      now, slot_exchange_->missing(), epoch(),
      reliably ? SlotRecovery::Way::reliable : SlotRecovery::Way::multicast);
}

void SlotExchangeOperation::watch_missing() {
  watch_at_ = kNever;
  for (const Rank rank : slot_exchange_->missing()) context().peers().watch(rank);
  if (!slot_exchange_->slot_busy()) return;
  // This rank's slot stays busy until every rank has left the exchange that used the slot last.
  // This rank watches all ranks meanwhile, because possibly no other rank would notice the death of
  // a rank that has not left.
  context().peers().watch_all();
}

Instant SlotExchangeOperation::next_deadline() const {
  if (over_) return kNever;
  const Instant deadline = std::min({watch_at_, request_at_, restore_at_});
  if (slot_exchange_->loses()) {
    // On a device that loses entries, a message reports when the slot becomes free, so a busy slot
    // needs no polling. But no event reports when the send queue has room for the rest of the
    // entry.
    const bool unsent = !slot_exchange_->slot_busy() && slot_exchange_->missing().empty();
    return unsent ? std::min(deadline, polled_at_ + kUnsentRetry) : deadline;
  }
  return slot_exchange_->slot_busy() ? std::min(deadline, polled_at_ + kSlotBusyRetry) : deadline;
}

void SlotExchangeOperation::finish() {
  if (!over_ && slot_exchange_ != nullptr) slot_exchange_->leave();
}

Missing SlotExchangeOperation::missing() const {
  Missing all;
  if (slot_exchange_ == nullptr) return all;
  for (const Rank rank : slot_exchange_->missing()) {
    all.text += fmt::format("{}rank {}", all.text.empty() ? "" : ", ", index(rank));
    all.ranks.insert(rank);
  }
  return all;
}

}  // namespace tutti::engine
