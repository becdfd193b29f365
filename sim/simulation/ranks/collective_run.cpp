#include "sim/simulation/ranks/collective_run.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "collectives/choice.hpp"
#include "collectives/registry.hpp"
#include "engine/aggregate/contribute_operation.hpp"
#include "engine/exchange/slot_exchange_operation.hpp"
#include "engine/multicast/multicast_operation.hpp"
#include "engine/schedule/schedule_operation.hpp"
#include "schedule/cache.hpp"

namespace tutti::simulation {

namespace {

bool is_gather(CollectiveKind kind) {
  return kind == CollectiveKind::allgather || kind == CollectiveKind::ring_allgather ||
         kind == CollectiveKind::slot_allgather;
}

/// The index of the first byte that differs from `value`; if there is none, the number of bytes.
std::size_t first_other(std::span<const std::byte> bytes, std::byte value) {
  // If each byte equals the next one, all bytes equal the first byte; memcmp() checks this at once.
  if (!bytes.empty() && bytes[0] == value &&
      std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0) {
    return bytes.size();
  }
  const auto at = std::find_if(bytes.begin(), bytes.end(), [&](std::byte b) { return b != value; });
  return static_cast<std::size_t>(at - bytes.begin());
}

/// The collective and the algorithm that carry out a CollectiveKind for which differs_by_rank() is
/// true.
std::pair<Collective, const char*> planned(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::gather:
      return {Collective::gather, "binomial"};
    case CollectiveKind::scatter:
      return {Collective::scatter, "binomial"};
    case CollectiveKind::alltoall:
      return {Collective::alltoall, "pairwise"};
    case CollectiveKind::reduce:
      return {Collective::reduce, "binomial"};
    case CollectiveKind::reduce_scatter:
      return {Collective::reduce_scatter, "ring"};
    default:
      return {Collective::allreduce, "ring"};
  }
}

/// The number of blocks that each rank sends in a collective for which differs_by_rank() is true.
std::uint32_t sent_blocks(CollectiveKind kind, std::uint32_t ranks) {
  const bool many = kind == CollectiveKind::scatter || kind == CollectiveKind::alltoall ||
                    kind == CollectiveKind::reduce_scatter;
  return many ? ranks : 1;
}

/// The bytes that rank `rank` sends, taken from `all`, which is expected_result().
Bytes sent_bytes(const CollectiveSpec& spec, std::uint32_t ranks, Rank rank, const Bytes& all) {
  if (spec.kind == CollectiveKind::scatter) return spec.root == rank ? all : Bytes();
  const std::size_t bytes = sent_blocks(spec.kind, ranks) * spec.bytes;
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(index(rank) * bytes);
  return {begin, begin + static_cast<std::ptrdiff_t>(bytes)};
}

/// The sum of the 64-bit words that all ranks send.
Bytes sum_of(std::size_t bytes, std::uint32_t ranks, const Bytes& all) {
  Bytes sums(bytes);
  for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
    std::uint64_t sum = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      std::uint64_t word = 0;
      std::memcpy(&word, &all[rank * bytes + at], 8);
      sum += word;
    }
    std::memcpy(&sums[at], &sum, 8);
  }
  return sums;
}

/// The bytes that rank `rank` receives in a collective for which differs_by_rank() is true. `all`
/// is expected_result().
Bytes wanted_bytes(const CollectiveSpec& spec, std::uint32_t ranks, Rank rank, const Bytes& all) {
  const auto block = [&](const Bytes& from, std::size_t at) {
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(at * spec.bytes);
    return Bytes(begin, begin + static_cast<std::ptrdiff_t>(spec.bytes));
  };
  const bool at_root = spec.root == rank;
  if (spec.kind == CollectiveKind::messages) return block(all, (index(rank) + ranks - 1) % ranks);
  if (spec.kind == CollectiveKind::gather) return at_root ? all : Bytes();
  if (spec.kind == CollectiveKind::scatter) return block(all, index(rank));
  if (spec.kind == CollectiveKind::alltoall) {
    Bytes column;
    for (std::uint32_t from = 0; from < ranks; ++from) {
      const Bytes one = block(all, std::size_t{from} * ranks + index(rank));
      column.insert(column.end(), one.begin(), one.end());
    }
    return column;
  }
  const Bytes sums = sum_of(sent_blocks(spec.kind, ranks) * spec.bytes, ranks, all);
  if (spec.kind == CollectiveKind::reduce_scatter) return block(sums, index(rank));
  return spec.kind == CollectiveKind::reduce && !at_root ? Bytes() : sums;
}

/// The key under which the template cache has the schedule of a point-to-point collective.
schedule::TemplateKey template_of(const CollectiveSpec& spec, std::uint32_t ranks, Rank rank) {
  schedule::TemplateKey key{.collective = Collective::barrier,
                            .algorithm = "dissemination",
                            .ranks = ranks,
                            .rank = rank,
                            .root = Rank{0},
                            .parameters = {}};
  if (spec.kind == CollectiveKind::counter_barrier) {
    key.algorithm = "counter";
  } else if (spec.kind == CollectiveKind::ring_allgather) {
    key.collective = Collective::allgather;
    key.algorithm = "ring";
  } else if (spec.kind == CollectiveKind::chain_broadcast) {
    key.collective = Collective::broadcast;
    key.algorithm = "chain";
    key.root = spec.root;
    key.parameters.segments = collectives::pipeline_segments(ranks, spec.bytes);
  } else if (differs_by_rank(spec.kind)) {
    const auto [collective, algorithm] = planned(spec.kind);
    key.collective = collective;
    key.algorithm = algorithm;
    if (is_rooted(spec.kind)) key.root = spec.root;
  }
  return key;
}

/// Finds a schedule template, or builds it. All simulations of a process share the templates,
/// because a swarm of small runs would otherwise spend its time on building them.
std::shared_ptr<const schedule::Schedule> find_template(const schedule::TemplateKey& key) {
  constexpr std::size_t kTemplates = 4096;
  static std::mutex mutex;
  static schedule::TemplateCache cache(kTemplates, collectives::build);
  const std::lock_guard lock(mutex);
  auto found = cache.get(key);
  return found ? std::move(*found) : nullptr;
}

/// The operation of a collective by slot exchange, as a communicator makes it for the algorithm
/// `linear`.
std::unique_ptr<engine::Operation> slot_operation(const CollectiveSpec& spec, Rank rank,
                                                  std::span<const std::byte> own,
                                                  std::span<std::byte> result) {
  CollectiveCall call{.send = own, .receive = result, .root = spec.root};
  if (spec.kind == CollectiveKind::slot_allgather) call.collective = Collective::allgather;
  if (spec.kind == CollectiveKind::slot_broadcast) call.collective = Collective::broadcast;
  return engine::SlotExchangeOperation::create(call, rank);
}

/// The eager limit of simulated communicators. It is small enough that small scenarios use both the
/// eager and the rendezvous protocol.
constexpr std::uint64_t kEagerLimitBytes = 64;

}  // namespace

const char* to_string(CollectiveKind kind) {
  static constexpr const char* kNames[] = {
      "allgather",       "broadcast", "ring-allgather", "chain-broadcast", "barrier",
      "counter-barrier", "gather",    "scatter",        "alltoall",        "reduce",
      "reduce-scatter",  "allreduce", "messages",       "slot-allgather",  "slot-broadcast",
      "slot-barrier",    "close",     "leave"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint64_t result_bytes(const CollectiveSpec& spec, std::uint32_t ranks) {
  if (moves_no_data(spec.kind)) return 0;
  if (spec.kind == CollectiveKind::scatter) return spec.bytes * ranks;
  if (differs_by_rank(spec.kind)) return spec.bytes * sent_blocks(spec.kind, ranks) * ranks;
  return is_gather(spec.kind) ? spec.bytes * ranks : spec.bytes;
}

Bytes expected_result(const CollectiveSpec& spec, std::uint32_t ranks, std::uint64_t seed) {
  Bytes bytes(result_bytes(spec, ranks));
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = draw(seed, at);
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
  return bytes;
}

std::unique_ptr<engine::Operation> make_operation(const CollectiveSpec& spec, std::uint32_t ranks,
                                                  Rank rank, std::span<const std::byte> own,
                                                  std::span<std::byte> result) {
  if (spec.kind == CollectiveKind::allgather)
    return engine::MulticastOperation::allgather(own, result);
  if (spec.kind == CollectiveKind::broadcast)
    return engine::MulticastOperation::broadcast(result, spec.root);
  if (uses_slots(spec.kind)) return slot_operation(spec, rank, own, result);
  if (spec.kind == CollectiveKind::leave) return std::make_unique<engine::InNetworkLeave>(kNever);
  thread_local const auto pool = std::make_shared<engine::WorkspacePool>();
  const schedule::TemplateKey key = template_of(spec, ranks, rank);
  engine::ScheduleCall call{
      .description = {tutti::to_string(key.collective), key.algorithm.data(),
                      is_rooted(spec.kind) ? spec.root : kNoRank, result.size()},
      .schedule = find_template(key),
      .shape = schedule::Shape::uniform(moves_no_data(spec.kind) ? 0 : spec.bytes,
                                        reduces(spec.kind) ? 8 : 1),
      .send = own,
      .receive = result,
      .reduction = std::nullopt};
  if (reduces(spec.kind)) call.reduction = Reduction{.type = DataType::uint64};
  call.shape.eager_limit_bytes = kEagerLimitBytes;
  call.shape.in_place = spec.kind == CollectiveKind::ring_allgather && !own.empty() &&
                        own.data() == result.data() + index(rank) * spec.bytes;
  auto operation = engine::ScheduleOperation::create(std::move(call), pool);
  return operation ? std::move(*operation) : nullptr;
}

CollectiveRun::CollectiveRun(const CollectiveSpec& spec, std::uint32_t ranks, Rank rank,
                             const Bytes& expected)
    : spec_(&spec),
      expected_(&expected),
      ranks_(ranks),
      rank_(rank),
      result_bytes_(result_bytes(spec, ranks)) {
  if (moves_no_data(spec.kind)) return;
  if (differs_by_rank(spec.kind)) {
    wanted_ = wanted_bytes(spec, ranks, rank, expected);
    result_bytes_ = wanted_.size();
    const Bytes own = sent_bytes(spec, ranks, rank, expected);
    own_.assign(own.size() + 2 * kGuardBytes, kGuard);
    std::copy(own.begin(), own.end(), own_.begin() + kGuardBytes);
  }
  result_.assign(result_bytes_ + 2 * kGuardBytes, kGuard);
  std::span<std::byte> all = result();
  std::fill(all.begin(), all.end(), kBefore);
  if (differs_by_rank(spec.kind)) return;
  if (!is_gather(spec.kind)) {
    if (spec.root == rank) std::copy(expected.begin(), expected.end(), all.begin());
    return;
  }
  const auto own = std::span(expected).subspan(index(rank) * spec.bytes, spec.bytes);
  if (spec.in_place) {
    std::copy(own.begin(), own.end(),
              all.begin() + static_cast<std::ptrdiff_t>(index(rank) * spec.bytes));
    return;
  }
  own_.assign(spec.bytes + 2 * kGuardBytes, kGuard);
  std::copy(own.begin(), own.end(), own_.begin() + kGuardBytes);
}

std::unique_ptr<engine::Operation> CollectiveRun::operation() {
  std::span<std::byte> all = result_.empty() ? std::span<std::byte>{} : result();
  std::span<std::byte> own;
  if (is_gather(spec_->kind)) {
    own = spec_->in_place ? all.subspan(index(rank_) * spec_->bytes, spec_->bytes) : this->own();
  } else if (!own_.empty()) {
    own = this->own();
  }
  return make_operation(*spec_, ranks_, rank_, own, all);
}

CollectiveCall CollectiveRun::call() {
  CollectiveCall made{.collective = Collective::barrier};
  if (moves_no_data(spec_->kind)) return made;
  const bool gathers = is_gather(spec_->kind);
  made.collective = gathers ? Collective::allgather : Collective::broadcast;
  if (gathers) made.send = own();
  made.receive = result();
  made.root = spec_->root;
  return made;
}

std::array<std::unique_ptr<engine::TaggedCall>, 2> CollectiveRun::messages(std::uint64_t tag) {
  using Kind = engine::TaggedCall::Kind;
  const Rank left = rank_of((index(rank_) + ranks_ - 1) % ranks_);
  const Rank right = rank_of((index(rank_) + 1) % ranks_);
  // Even ranks receive by tag from any rank. Odd ranks receive the next message of their left
  // neighbour with any tag, so that the result is wrong if a message has overtaken another one.
  const bool by_tag = index(rank_) % 2 == 0;
  std::array<std::unique_ptr<engine::TaggedCall>, 2> calls{
      std::make_unique<engine::TaggedCall>(engine::TaggedCall{.kind = Kind::receive,
                                                              .peer = by_tag ? kNoRank : left,
                                                              .tag = tag,
                                                              .tag_mask = by_tag ? UINT64_MAX : 0,
                                                              .buffer = result()}),
      std::make_unique<engine::TaggedCall>(
          engine::TaggedCall{.kind = Kind::send, .peer = right, .tag = tag, .buffer = own()})};
  for (auto& call : calls) call->completion = std::make_shared<engine::Completion>();
  return calls;
}

Status CollectiveRun::finish(bool succeeded) {
  finished_ = true;
  if (result_.empty()) return {};
  std::span<std::byte> all = result();
  Status status;
  if (succeeded && !std::equal(all.begin(), all.end(), wanted().begin())) {
    const auto [wrong, right] = std::mismatch(all.begin(), all.end(), wanted().begin());
    const char* kind = *wrong == kAfterwards ? ", read from a buffer after its collective had ended"
                       : *wrong == kBefore   ? ", never written"
                                             : "";
    status =
        failure(Code::internal, "byte {} of the {} result bytes is 0x{:02x} instead of 0x{:02x}{}",
                wrong - all.begin(), all.size(), static_cast<unsigned>(*wrong),
                static_cast<unsigned>(*right), kind);
  }
  // Overwrites the buffers, as an application may after the end of a collective, so that any later
  // access to them is detected.
  std::fill(all.begin(), all.end(), kAfterwards);
  if (!own_.empty()) {
    std::fill(own_.begin() + kGuardBytes, own_.end() - kGuardBytes, kAfterwards);
  }
  return status;
}

Status CollectiveRun::check_untouched() const {
  for (const Bytes* buffer : {&result_, &own_}) {
    if (buffer->empty()) continue;
    const char* which = buffer == &result_ ? "receive" : "send";
    const std::span<const std::byte> all(*buffer);
    const std::size_t before = first_other(all.first(kGuardBytes), kGuard);
    const std::size_t behind = first_other(all.last(kGuardBytes), kGuard);
    if (before < kGuardBytes) {
      return failure(Code::internal, "memory was written {} bytes before the {} buffer",
                     kGuardBytes - before, which);
    }
    if (behind < kGuardBytes) {
      return failure(Code::internal, "memory was written {} bytes after the end of the {} buffer",
                     behind, which);
    }
    if (!finished_) continue;
    const auto inner = all.subspan(kGuardBytes, all.size() - 2 * kGuardBytes);
    const std::size_t later = first_other(inner, kAfterwards);
    if (later < inner.size()) {
      return failure(Code::internal,
                     "byte {} of the {} buffer was written after the collective had completed",
                     later, which);
    }
  }
  return {};
}

}  // namespace tutti::simulation
