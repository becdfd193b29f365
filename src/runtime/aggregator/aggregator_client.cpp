#include "runtime/aggregator/aggregator_client.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "engine/aggregate/aggregated_call.hpp"
#include "reduction/reducer.hpp"
#include "runtime/aggregator/aggregation_options.hpp"
#include "runtime/aggregator/aggregation_plan.hpp"
#include "runtime/bootstrap/unique_id.hpp"
#include "runtime/communicator/call_check.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/exception_status.hpp"
#include "runtime/routes/route_names.hpp"

namespace tutti::runtime {

namespace {

// If several aggregators share a call, each reduces a part of at least this length in bytes. With
// shorter parts, the additional messages would cost more time than the additional aggregators save.
constexpr std::uint64_t kMinPartBytes = 64 * 1024;
// Time for which a leaving rank waits for the other ranks to leave.
constexpr Nanoseconds kLeavePatience{1'000'000'000};

/// True if every fold order gives the same bits: integers wrap, and min and max select an operand.
bool order_free(const ReductionCall& call) {
  return !reduction::is_float(call.type) || call.operation == ReduceOperation::min ||
         call.operation == ReduceOperation::max;
}

engine::InNetworkKind kind_of(Collective collective) {
  if (collective == Collective::reduce_scatter) return engine::InNetworkKind::reduce_scatter;
  return collective == Collective::reduce ? engine::InNetworkKind::reduce
                                          : engine::InNetworkKind::allreduce;
}

/// Stands for the aggregator in a list of ranks at fault in which the other ranks have their
/// numbers in the job. No rank of a job has this number.
constexpr Rank kAggregatorInJob = rank_of(0xffff'fffe);

/// Removes the ranks at fault of `status` if one of them is the aggregator, which is no rank of the
/// job. A rank that is named with the aggregator is removed, too, because it may be healthy.
Status without(Rank aggregator, const Status& status) {
  const auto ranks = status.ranks();
  if (std::find(ranks.begin(), ranks.end(), aggregator) == ranks.end()) return status;
  return Status(status.code(), status.message());
}

/// For each rank of a side communicator, its number in the job, or kAggregatorInJob for the
/// aggregator. Empty if every rank has the same number in the side communicator and in the job.
std::vector<Rank> members_of_side(const engine::RankNames& names, std::uint32_t size) {
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < size; ++r) ranks.push_back(rank_of(r));
  std::vector<Rank> members = names.in_job(ranks);
  if (members == ranks) return {};
  members.push_back(kAggregatorInJob);
  return members;
}

}  // namespace

// ---- joining the aggregators --------------------------------------------------------------------

Result<std::shared_ptr<Aggregation>> Aggregation::create(Bootstrap& bootstrap,
                                                         const CommunicatorOptions& options,
                                                         std::shared_ptr<Progress> progress,
                                                         const crypto::Secret& key,
                                                         const engine::RankNames& names) {
  std::shared_ptr<Aggregation> made(
      new Aggregation(bootstrap.rank(), bootstrap.size(), std::move(progress)));
  made->members_ = members_of_side(names, bootstrap.size());
  // The plan is sealed, because it contains the unique ids of the side communicators: a process
  // that has such an id can join.
  Result<Bytes> own = Bytes();
  if (bootstrap.rank() == rank_of(0)) {
    own = seal(make_aggregation_plan(options, bootstrap.size()), key);
  }
  auto plans = bootstrap.allgather(own ? *own : Bytes(), options.create_timeout);
  if (!own) return own.status();
  if (!plans) return plans.status();
  auto plan = unseal_aggregation_plan(plans->front(), key);
  if (!plan) return failure(plan.status().code(), "rank 0: {}", plan.status().message());
  Status status = plan->status;
  for (const AggregationPlan::Side& side : plan->sides) {
    if (status.ok()) {
      status = made->join(side.address, side.unique_id, side.terms, options);
    } else if (bootstrap.rank() == rank_of(0)) {
      // The aggregators are not used, so rank 0 discards the unique id that it has made for this
      // side communicator. Otherwise the store of the id would go on listening.
      if (const auto id = parse_unique_id(side.unique_id)) discard_unique_id(*id);
    }
  }
  // Each rank tells the others whether it has succeeded, because either all ranks use the
  // aggregators or none does.
  auto ends =
      bootstrap.allgather(encode(AggregationPlan{status, false, {}}), options.create_timeout);
  if (!ends) return ends.status();
  for (std::size_t r = 0; r < ends->size(); ++r) {
    const auto end = decode_aggregation_plan((*ends)[r]);
    const Status& one = end ? end->status : end.status();
    if (one.ok()) continue;
    made->sides_.clear();
    // All ranks get the same plan from rank 0. An error in the plan is therefore the same on all
    // ranks and names no rank; any other error names the rank on which it occurred.
    made->reason_ = plan->status.ok() ? failure(one.code(), "rank {}: {}", r, one.message()) : one;
    if (!plan->fallback) return made->reason_;
    return made;
  }
  return made;
}

Status Aggregation::join(const std::string& address, const std::string& unique_id,
                         const engine::WindowConfig& terms, const CommunicatorOptions& options) {
  const auto named = [&](const Status& status) {
    return failure(status.code(), "aggregator {} did not join the job: {}", address,
                   status.message());
  };
  const auto id = parse_unique_id(unique_id);
  if (!id) return named(id.status());
  auto bootstrap = join_unique_id(*id, rank_, size_ + 1, options.create_timeout, "aggregator");
  if (!bootstrap) return named(bootstrap.status());
  auto state = CommunicatorImpl::create(
      **bootstrap, side_options(options), progress_,
      {.number = progress_->next_number(), .members = members_, .key = (*bootstrap)->key()});
  if (!state) return named(state.status());
  progress_->use_number((*state)->number());
  const device::Capabilities& can = (*state)->context().endpoint().capabilities();
  if (!can.has(device::Capability::write_immediate)) {
    return failure(
        Code::unsupported,
        "the device has no WRITE with immediate, which aggregators need: use the device 'ip'");
  }
  sides_.push_back({address, terms, std::move(*state)});
  return {};
}

/// The number by which errors of the side communicators name the aggregator.
Rank Aggregation::aggregator() const { return members_.empty() ? rank_of(size_) : members_.back(); }

Aggregation::~Aggregation() { (void)close(kNever); }

Status Aggregation::close(Instant deadline) {
  if (std::exchange(closed_, true)) return {};
  std::vector<std::shared_ptr<engine::Completion>> left;
  const Instant patience = std::min(deadline, now() + kLeavePatience);
  for (Side& side : sides_) {
    auto leave = std::make_unique<engine::InNetworkLeave>(patience);
    left.push_back(leave->completion());
    progress_->submit(side.state->context(), std::move(leave), true);
  }
  for (const auto& one : left) progress_->wait(*one, patience + kLeavePatience);
  Status first;
  for (Side& side : sides_) {
    Status end = side.state->close(deadline);
    if (first.ok()) first = std::move(end);
  }
  return guarded([&] { return without(aggregator(), first); });
}

std::string Aggregation::describe() const {
  if (!active()) return "no aggregator: " + reason_.message();
  std::string addresses;
  for (const Side& side : sides_) addresses += (addresses.empty() ? "" : ", ") + side.address;
  const engine::WindowConfig& terms = sides_.front().terms;
  return fmt::format("{} aggregator(s) ({}), windows of {} slots x {} bytes a rank, {} pulses",
                     sides_.size(), addresses, terms.slots, terms.segment_bytes, terms.pulses);
}

CallRoute::CounterList Aggregation::counters() const {
  std::map<std::string, std::uint64_t> total;
  progress_->with_engine([&] {
    for (const Side& side : sides_) {
      for (const auto& [name, value] : observe::list(side.state->context().counters())) {
        total[name] += value;
      }
    }
  });
  return {total.begin(), total.end()};
}

void Aggregation::abort(const std::string& reason) {
  for (const Side& side : sides_) side.state->abort(reason);
}

void Aggregation::fail_because(const Status& cause) {
  for (const Side& side : sides_) EnginePoller::fail_because(side.state->context(), cause);
}

void Aggregation::on_failure(const std::function<void(const Status&)>& hook) {
  for (const Side& side : sides_) side.state->context().failures().on_failure(hook);
}

void Aggregation::poll() {
  for (const Side& side : sides_) side.state->poll_routes();
}

bool Aggregation::busy() const {
  return std::any_of(sides_.begin(), sides_.end(),
                     [](const Side& side) { return side.state->context().busy(); });
}

Status Aggregation::status() const {
  for (const Side& side : sides_) {
    if (const Status failed = side.state->status(); !failed) return without(aggregator(), failed);
  }
  return {};
}

// ---- calls --------------------------------------------------------------------------------------

/// One completion for all operations of a call; the operations may end in any order.
class Aggregation::CompletionGroup {
 public:
  explicit CompletionGroup(Rank aggregator) : aggregator_(aggregator) {}
  const std::shared_ptr<engine::Completion>& completion() const { return completion_; }

  void add(engine::Operation& operation, const std::shared_ptr<CompletionGroup>& self) {
    ++open_;
    ++completion_->chunks_total;
    operation.completion()->callback = [self](const Status& status) { self->ended(status); };
  }
  /// Declares that no further operation will be added. The call completes when all added operations
  /// have ended.
  void seal() { ended({}); }

 private:
  void ended(const Status& status) {
    {
      const std::lock_guard lock(mutex_);
      if (completion_->status.ok()) completion_->status = without(aggregator_, status);
      ++completion_->chunks_present;
    }
    if (open_.fetch_sub(1) != 1) return;
    completion_->chunks_present = completion_->chunks_total.load();
    completion_->end(completion_->status);
  }

  Rank aggregator_;
  std::shared_ptr<engine::Completion> completion_ = std::make_shared<engine::Completion>();
  std::mutex mutex_;
  std::atomic<std::uint64_t> open_{1};
};

/// A call whose arguments have been checked.
struct Aggregation::Plan {
  engine::InNetworkCall call;  ///< the call before it is divided among the aggregators
  engine::InNetworkBuffers buffers;
  std::span<std::byte> output;
  reduction::Reducer reducer;
  bool will_wait = false;
  Priority priority = Priority::normal;
};

bool Aggregation::serves(const CollectiveCall& call) const {
  if (!active() || !reduces(call.collective)) return false;
  const Algorithm algorithm = call.options.algorithm;
  const bool named = algorithm == kInNetwork || algorithm == kInNetworkRing;
  // A call that names an aggregator algorithm takes this route even if its blocks may differ in
  // size. Aggregators do not support that, so `start` returns the error.
  return named || (algorithm == Algorithm::automatic && !varies(call.collective));
}

Result<std::string> Aggregation::algorithm_of(const CollectiveCall& call) {
  if (const auto planned = plan(call); !planned) return planned.status();
  return std::string(kInNetwork.name());
}

CallRoute::Outcome Aggregation::start(const CollectiveCall& call) { return submit(plan(call)); }

Result<CallRoute::PreparedRun> Aggregation::prepare(const CollectiveCall& call) {
  auto planned = plan(call);
  if (!planned) return planned.status();
  return PreparedRun([this, planned = std::move(planned)] { return submit(planned); });
}

Result<Aggregation::Plan> Aggregation::plan(const CollectiveCall& call) const {
  if (Status fits = check_call(call, rank_, size_); !fits) return fits;
  ReductionCall reduction{.type = call.reduction.type,
                          .operation = call.reduction.operation,
                          .order = {},
                          .factor = {},
                          .will_wait = call.options.will_wait,
                          .priority = call.options.priority};
  if (call.options.algorithm == kInNetworkRing) reduction.order = engine::FoldOrder::ring;
  if (reduction.operation == ReduceOperation::premultiplied_sum) {
    reduction.factor = std::span(call.reduction.factor).first(element_bytes(reduction.type));
  }
  switch (call.collective) {
    case Collective::allreduce:
    case Collective::reduce_scatter:
      return plan(call.collective, rank_of(0), call.send, call.receive, reduction);
    case Collective::reduce:
      return plan(call.collective, call.root, call.send, call.receive, reduction);
    default:
      return failure(Code::invalid_argument,
                     "aggregators do not support {}: use allreduce, reduce or reduce_scatter",
                     to_string(call.collective));
  }
}

Aggregation::Outcome Aggregation::allreduce(std::span<const std::byte> input,
                                            std::span<std::byte> output,
                                            const ReductionCall& call) {
  return submit(plan(Collective::allreduce, rank_of(0), input, output, call));
}

Aggregation::Outcome Aggregation::reduce_scatter(std::span<const std::byte> input,
                                                 std::span<std::byte> output,
                                                 const ReductionCall& call) {
  return submit(plan(Collective::reduce_scatter, rank_of(0), input, output, call));
}

Aggregation::Outcome Aggregation::reduce(std::span<const std::byte> input,
                                         std::span<std::byte> output, Rank root,
                                         const ReductionCall& call) {
  return submit(plan(Collective::reduce, root, input, output, call));
}

std::size_t Aggregation::parts_of(std::uint64_t bytes) const {
  return std::clamp<std::size_t>(bytes / kMinPartBytes, 1, sides_.size());
}

Result<Aggregation::Plan> Aggregation::plan(Collective collective, Rank root,
                                            std::span<const std::byte> input,
                                            std::span<std::byte> output,
                                            const ReductionCall& call) const {
  if (collective == Collective::reduce && rank_ != root) output = {};
  if (!active()) return failure(Code::unsupported, "{}", describe());
  const Status fits = check_call({.collective = collective,
                                  .send = input,
                                  .receive = output,
                                  .root = root,
                                  .reduction = {.type = call.type, .operation = call.operation}},
                                 rank_, size_);
  if (!fits.ok()) return fits;
  auto reducer = reduction::Reducer::create(call.operation, call.type);
  if (!reducer) return reducer.status();
  const std::size_t element = element_bytes(call.type);
  const bool scatters = collective == Collective::reduce_scatter;
  const std::uint64_t block_bytes = scatters ? output.size() : input.size();
  const bool scaled = call.operation == ReduceOperation::premultiplied_sum;
  if (scaled && call.factor.size() != element) {
    return failure(Code::invalid_argument,
                   "the factor of premultiplied_sum has {} bytes: pass one element of type {}",
                   call.factor.size(), to_string(call.type));
  }
  Plan made{.call = {.kind = kind_of(collective),
                     .type = call.type,
                     .operation = call.operation,
                     .order = engine::FoldOrder::rank,
                     .root = root,
                     .elements = block_bytes / element},
            .buffers = {.input = input, .block_bytes = block_bytes},
            .output = output,
            .reducer = *reducer,
            .will_wait = call.will_wait,
            .priority = call.priority};
  if (scatters && size_ > 1) {
    made.call.order =
        call.order.value_or(order_free(call) ? engine::FoldOrder::ring : engine::FoldOrder::rank);
  }
  if (scaled) std::memcpy(made.buffers.factor.data(), call.factor.data(), element);
  if (Status status = engine::check(made.call, size_); !status) return status;
  return made;
}

Aggregation::Outcome Aggregation::submit(const Result<Plan>& plan) {
  if (!plan) return plan.status();
  const auto gathered = std::make_shared<CompletionGroup>(aggregator());
  if (plan->call.elements > 0) {
    const std::lock_guard lock(mutex_);
    const std::size_t parts = parts_of(plan->buffers.input.size());
    const bool shared = parts == sides_.size();
    const std::size_t first = shared ? 0 : calls_ % sides_.size();
    // All parts are created before the first is submitted, so that a call that fails for lack of
    // memory has not begun.
    std::vector<std::pair<Side*, std::unique_ptr<engine::Operation>>> all;
    for (std::size_t part = 0; part < parts; ++part) {
      Side& side = sides_[(first + part) % sides_.size()];
      for (auto& operation : operations_of(*plan, side, part, parts)) {
        gathered->add(*operation, gathered);
        all.emplace_back(&side, std::move(operation));
      }
    }
    if (!shared) ++calls_;
    for (auto& [side, operation] : all)
      progress_->submit(side->state->context(), std::move(operation), plan->will_wait);
  }
  gathered->seal();
  return gathered->completion();
}

/// The operations by which one aggregator carries out its part of a call.
std::vector<std::unique_ptr<engine::Operation>> Aggregation::operations_of(
    const Plan& plan, const Side& side, std::size_t part, std::size_t parts) const {
  const std::size_t element = element_bytes(plan.call.type);
  const std::uint64_t begin = plan.call.elements * part / parts;
  const std::uint64_t end = plan.call.elements * (part + 1) / parts;
  if (begin == end) return {};
  engine::InNetworkCall call = plan.call;
  call.elements = end - begin;
  engine::InNetworkBuffers buffers = plan.buffers;
  buffers.part_offset_bytes = begin * element;
  const std::span<std::byte> result =
      plan.output.empty() ? plan.output
                          : plan.output.subspan(begin * element, call.elements * element);
  auto operations = engine::aggregated_call(call, size_, side.terms, buffers, result, plan.reducer);
  for (auto& operation : operations) operation->set_priority(plan.priority);
  return operations;
}

}  // namespace tutti::runtime
