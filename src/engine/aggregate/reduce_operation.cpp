#include "engine/aggregate/reduce_operation.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "engine/core/communicator_context.hpp"
#include "engine/multicast/multicast_operation.hpp"

namespace tutti::engine {

using protocol::Message;
using protocol::MessageKind;

namespace {

/// Number of segments to reduce before the network is polled again.
constexpr int kSegmentsPerPoll = 4;

ZeroedBytes zeroed_bytes(std::size_t size) {
  ZeroedBytes bytes(static_cast<std::byte*>(std::calloc(size, 1)));
  if (bytes == nullptr) throw std::bad_alloc();
  return bytes;
}

}  // namespace

// ---- window -------------------------------------------------------------------------------------

std::uint64_t InNetworkWindow::memory_bytes(std::uint32_t ranks, const WindowConfig& terms) {
  const std::uint64_t slots = std::uint64_t{terms.slots} * terms.segment_bytes;
  return (std::uint64_t{ranks} + 1) * slots + std::uint64_t{ranks} * CallRecord::kBytes;
}

// Each rank's part of the window begins with the rank's call record. The length of the record also
// shifts the window slots of different ranks against each other, so that the operands of one
// segment lie in different cache sets.
std::uint64_t InNetworkWindow::part_bytes() const {
  return CallRecord::kBytes + std::uint64_t{terms_.slots} * terms_.segment_bytes;
}

InNetworkWindow::InNetworkWindow(std::uint32_t ranks, const WindowConfig& terms)
    : left(ranks), ranks_(ranks), terms_(terms) {
  memory_ = zeroed_bytes(ranks * part_bytes());
  results_ = zeroed_bytes(std::size_t{terms.slots} * terms.segment_bytes);
  busy_.resize(terms.slots);
}

Status InNetworkWindow::open(device::Endpoint& endpoint) {
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    auto key = endpoint.register_memory(part(r));
    if (!key) return key.status();
    keys_.push_back(*key);
  }
  return {};
}

void InNetworkWindow::close(device::Endpoint& endpoint) {
  for (const device::MemoryKey key : keys_) endpoint.deregister_memory(key);
  keys_.clear();
}

bool InNetworkWindow::free(std::uint32_t first, std::uint32_t count) const {
  const auto begin = busy_.begin() + first;
  return std::none_of(begin, begin + count, [](bool busy) { return busy; });
}

void InNetworkWindow::take(std::uint32_t first, std::uint32_t count) {
  std::fill_n(busy_.begin() + first, count, true);
}

void InNetworkWindow::give_back(std::uint32_t first, std::uint32_t count) {
  std::fill_n(busy_.begin() + first, count, false);
}

// ---- the call -----------------------------------------------------------------------------------

ReduceOperation::ReduceOperation(std::shared_ptr<InNetworkWindow> window)
    : Operation({"aggregation", "in_network", kNoRank, 0}), window_(std::move(window)) {
  completion()->callback = [window = window_](const Status& status) {
    if (!status.ok() && window->on_end) window->on_end(status);
  };
}

void ReduceOperation::start(Instant now, bool) {
  arrived_.resize(window_->ranks());
  result_keys_.resize(window_->ranks());
  granted_ = window_->terms().slots;
  now_ = now;
  protocol::Outbox outbox;
  for (std::uint32_t r = 0; r < window_->ranks(); ++r) {
    if (window_->left[r]) continue;
    // Ranks are watched between calls, too. Otherwise a communicator whose ranks have died would
    // never release its aggregator window.
    context().peers().watch(rank_of(r));
    outbox.send(rank_of(r), MessageKind::window, epoch(), window_->key(r).key);
  }
  context().messages().send(now, outbox);
  context().recorder().enter(epoch(), observe::Phase::ready, now);
}

void ReduceOperation::on_message(Instant now, Rank from, const Message& message) {
  now_ = now;
  if (message.kind != MessageKind::leave || index(from) >= window_->ranks()) {
    ++context().counters().messages_rejected;
    return;
  }
  window_->left[index(from)] = true;
  // A rank that makes no further calls may close its endpoint, so its silence is no longer a
  // failure.
  context().peers().unwatch(from);
  if (call_) {
    refuse(Refusal::left, index(from));
  } else if (std::all_of(window_->left.begin(), window_->left.end(),
                         [](bool one) { return one; })) {
    all_left();
  }
}

// Tells the ranks that every rank has left. Each rank waits for this message before it closes, so
// that it can acknowledge the last messages of the other ranks.
void ReduceOperation::all_left() {
  over_ = true;
  protocol::Outbox outbox;
  for (std::uint32_t r = 0; r < window_->ranks(); ++r) {
    outbox.send(rank_of(r), MessageKind::leave, epoch());
  }
  context().messages().send(now_, outbox);
  if (window_->on_end) window_->on_end({});
}

void ReduceOperation::on_immediate(Instant now, Rank from, std::uint32_t count) {
  now_ = now;
  const std::uint32_t rank = index(from);
  if (rank >= window_->ranks() || refused_) {
    ++context().counters().messages_rejected;
    return;
  }
  if (arrived_[rank] == 0 && !accept_record(rank)) return;
  if (count <= arrived_[rank] || count > plan_.segments()) return refuse(Refusal::record, rank);
  if (count > granted_) return refuse(Refusal::overrun, rank);
  if (reduced_ == 0 && posted_ == 0 && phase() == observe::Phase::ready) {
    context().recorder().enter(epoch(), observe::Phase::data, now);
  }
  arrived_[rank] = count;
}

bool ReduceOperation::accept_record(std::uint32_t rank) {
  const auto record = decode_call_record(window_->record(rank), window_->ranks());
  if (!record) {
    refuse(Refusal::record, rank);
    return false;
  }
  const auto gone = std::find(window_->left.begin(), window_->left.end(), true);
  if (gone != window_->left.end()) {
    refuse(Refusal::left, static_cast<std::uint32_t>(gone - window_->left.begin()));
    return false;
  }
  if (!call_) adopt(*record);
  if (refused_) return false;
  if (*call_ != record->call) {
    refuse(Refusal::mismatch, rank);
    return false;
  }
  result_keys_[rank] = record->result_key;
  const std::size_t element = reduction::element_bytes(call_->type);
  for (const std::size_t at : {std::size_t{rank}, std::size_t{rank} + window_->ranks()}) {
    std::memcpy(factors_.data() + at * element, record->factor.data(), element);
  }
  return true;
}

void ReduceOperation::adopt(const CallRecord& record) {
  auto reducer = reduction::Reducer::create(record.call.operation, record.call.type);
  if (!reducer) return refuse(Refusal::reduction, 0);
  call_ = record.call;
  reducer_ = *reducer;
  plan_ = InNetworkPlan(*call_, window_->ranks(), window_->terms());
  factors_.resize(2 * window_->ranks() * reduction::element_bytes(call_->type));
  operands_.reserve(window_->ranks());
  ++context().counters().in_network_calls;
  if (call_->kind != InNetworkKind::allreduce) submit_successor();
}

void ReduceOperation::refuse(Refusal refusal, std::uint32_t rank) {
  if (refused_) return;
  refused_ = true;
  protocol::Outbox outbox;
  for (std::uint32_t r = 0; r < window_->ranks(); ++r) {
    if (window_->left[r]) continue;
    outbox.send(rank_of(r), MessageKind::refused, epoch(),
                std::uint64_t{static_cast<std::uint32_t>(refusal)} << 32 | rank);
  }
  context().failures().fail(
      failure_of({rank_of(rank)}, Code::invalid_argument, "{}", describe(refusal, rank_of(rank))),
      std::move(outbox));
}

void ReduceOperation::submit_successor() {
  context().operations().submit(std::make_unique<ReduceOperation>(window_));
}

// ---- reducing -----------------------------------------------------------------------------------

bool ReduceOperation::poll(Instant now) {
  if (!call_ || refused_) return false;
  bool worked = false;
  for (int i = 0; i < kSegmentsPerPoll && reduced_ < plan_.segments(); ++i) {
    if (!reduce_next(now)) break;
    worked = true;
  }
  if (worked) return_credits(now);
  return worked;
}

bool ReduceOperation::present(std::uint32_t segment) const {
  for (std::uint32_t r = 0; r < window_->ranks(); ++r) {
    // A rank that adds its own contribution to a segment's result does not send that contribution.
    // The aggregator needs only the rank's call record, which has the memory key for the result.
    const std::uint32_t needed = plan_.stays(segment, rank_of(r)) ? 1 : segment + 1;
    if (arrived_[r] < needed) return false;
  }
  return true;
}

bool ReduceOperation::reduce_next(Instant now) {
  const std::uint32_t segment = reduced_;
  if (!present(segment)) return false;
  gather_operands(segment);
  const bool taken =
      call_->kind == InNetworkKind::allreduce ? collect_group(segment) : deliver(now, segment);
  if (!taken) return false;
  ++reduced_;
  observe::Counters& counters = context().counters();
  ++counters.in_network_segments_reduced;
  counters.in_network_bytes_reduced += plan_.bytes(segment) * operands_.size();
  return true;
}

void ReduceOperation::gather_operands(std::uint32_t segment) {
  const std::uint32_t ranks = window_->ranks();
  const bool ring = call_->order == FoldOrder::ring;
  first_operand_ = ring ? (index(plan_.owner(segment)) + 1) % ranks : 0;
  operands_.clear();
  for (std::uint32_t i = 0; i < (ring ? ranks - 1 : ranks); ++i) {
    const auto rank = static_cast<std::uint32_t>((first_operand_ + i) % ranks);
    operands_.push_back(window_->place(rank, segment));
  }
}

void ReduceOperation::fold(std::byte* to, std::uint32_t segment) const {
  const std::size_t count = plan_.elements(segment);
  // For an average in ring order, the owner of a block adds its contribution last and then divides
  // by the number of ranks. So the aggregator only adds up the other contributions.
  if (call_->order == FoldOrder::ring && call_->operation == reduction::Operation::average) {
    reducer_->combine(to, operands_, count);
    return;
  }
  const std::byte* factors =
      factors_.data() + first_operand_ * reduction::element_bytes(call_->type);
  reducer_->reduce(to, operands_, count, factors);
}

void ReduceOperation::note_full() {
  if (!full_) ++context().counters().in_network_result_stalls;
  full_ = true;
}

bool ReduceOperation::deliver(Instant now, std::uint32_t segment) {
  const std::uint32_t cell = segment % window_->terms().slots;
  if (!window_->free(cell, 1)) {
    note_full();
    return false;
  }
  full_ = false;
  const std::span<std::byte> result = window_->cells(cell, 1).first(plan_.bytes(segment));
  const Rank owner = plan_.owner(segment);
  fold(result.data(), segment);
  const Status posted = context().endpoint().post(
      now, {.opcode = device::Opcode::write_immediate,
            .peer = owner,
            .work_id = std::uint64_t{epoch()} << 32 | cell,
            .local = result,
            .remote_key = {result_keys_[index(owner)]},
            .remote_offset = plan_.offset_bytes(segment),
            .immediate = std::uint64_t{epoch()} << 32 | (plan_.in_block(segment) + 1)});
  if (!posted.ok()) {
    context().failures().on_refusal(posted);
    return false;
  }
  window_->take(cell, 1);
  ++posted_;
  ++context().counters().in_network_results;
  return true;
}

bool ReduceOperation::collect_group(std::uint32_t segment) {
  const std::uint32_t size = plan_.group_segments();
  const std::uint32_t group = segment / size;
  const std::uint32_t first_cell = group % (window_->terms().slots / size) * size;
  const std::uint32_t in_group = segment % size;
  if (in_group == 0) {
    if (!window_->free(first_cell, size)) {
      note_full();
      return false;
    }
    full_ = false;
    window_->take(first_cell, size);
  }
  // The segments of a group are stored without gaps, even if they are shorter than a result cell,
  // because one Broadcast sends the group.
  const std::uint64_t at = plan_.offset_bytes(segment) - plan_.group_offset_bytes(group);
  fold(window_->cells(first_cell, size).data() + at, segment);
  if (in_group + 1 == size || segment + 1 == plan_.segments()) broadcast(group, first_cell);
  return true;
}

void ReduceOperation::broadcast(std::uint32_t group, std::uint32_t first_cell) {
  const std::uint32_t size = plan_.group_segments();
  auto operation = MulticastOperation::broadcast(
      window_->cells(first_cell, size).first(plan_.group_bytes(group)), context().rank());
  operation->completion()->callback = [window = window_, first_cell, size](const Status& status) {
    window->give_back(first_cell, size);
    if (!status.ok() && window->on_end) window->on_end(status);
  };
  context().operations().submit(std::move(operation));
  ++context().counters().in_network_results;
  if (group + 1 == plan_.groups()) submit_successor();
}

void ReduceOperation::on_completion(Instant, const device::Completion& completion) {
  const auto cell = static_cast<std::uint32_t>(completion.work_id);
  if (cell >= window_->terms().slots || posted_ == 0) return;
  window_->give_back(cell, 1);
  --posted_;
  if (completion.code != Code::ok) {
    context().failures().fail(
        failure_of(context().names().in_job({completion.peer}), completion.code,
                   "{} refused the WRITE of its result: see the error of that rank",
                   context().names().of(completion.peer)));
  }
}

void ReduceOperation::return_credits(Instant now) {
  const WindowConfig& terms = window_->terms();
  const std::uint32_t credit_batch = (terms.slots + terms.pulses - 1) / terms.pulses;
  const std::uint64_t allowed = std::uint64_t{reduced_} + terms.slots;
  if (granted_ >= plan_.segments() || allowed < std::uint64_t{granted_} + credit_batch) return;
  granted_ = static_cast<std::uint32_t>(allowed);
  ++context().counters().in_network_pulses;
  protocol::Outbox outbox;
  for (std::uint32_t r = 0; r < window_->ranks(); ++r) {
    outbox.send(rank_of(r), MessageKind::credit_batch, epoch(), granted_);
  }
  context().messages().send(now, outbox);
}

// ---- state --------------------------------------------------------------------------------------

bool ReduceOperation::locally_complete() const {
  if (over_) return true;
  return call_ && (call_->kind == InNetworkKind::allreduce || reduced_ == plan_.segments());
}

bool ReduceOperation::done() const {
  return over_ || (call_ && reduced_ == plan_.segments() && posted_ == 0);
}

observe::Phase ReduceOperation::phase() const {
  return call_ ? observe::Phase::data : observe::Phase::ready;
}

Missing ReduceOperation::missing() const {
  if (!call_) return {};
  Missing late;
  std::string numbers;
  for (std::uint32_t r = 0; r < window_->ranks(); ++r) {
    if (arrived_[r] > reduced_ || plan_.stays(reduced_, rank_of(r))) continue;
    numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", r);
    late.ranks.insert(rank_of(r));
  }
  late.text = fmt::format("{} of {} segments{}", plan_.segments() - reduced_, plan_.segments(),
                          numbers.empty() ? "" : ", contributions of rank(s) " + numbers);
  return late;
}

}  // namespace tutti::engine
