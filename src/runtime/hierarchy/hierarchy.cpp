#include "runtime/hierarchy/hierarchy.hpp"

#include <map>

#include "base/error.hpp"
#include "observe/counters.hpp"
#include "runtime/bootstrap/subset_bootstrap.hpp"
#include "runtime/communicator/call_check.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/progress/clock.hpp"
#include "runtime/progress/exception_status.hpp"
#include "runtime/progress/progress.hpp"
#include "runtime/routes/route_names.hpp"

namespace tutti::runtime {

using hierarchy::HierarchyStage;
using hierarchy::HostLayout;

namespace {

constexpr const char* kSharedMemory = "host";

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

// ---- creating the route -------------------------------------------------------------------------

Result<std::shared_ptr<Hierarchy>> Hierarchy::create(
    Bootstrap& bootstrap, const CommunicatorOptions& options, const HostLayout& layout, bool groups,
    Overruled overruled, std::shared_ptr<Progress> progress, const crypto::Secret& key,
    const engine::RankNames& names) {
  const Rank me = bootstrap.rank();
  std::shared_ptr<Hierarchy> made(new Hierarchy(layout, groups, std::move(overruled), me,
                                                names.in_job({me}).front(), std::move(progress)));
  const Status mine = made->open(bootstrap, options, key, names);
  // Each rank tells the others whether it could create its side communicators, because either all
  // ranks get this route or none does.
  auto ends =
      bootstrap.allgather(bytes_of(mine.ok() ? "" : mine.message()), options.create_timeout);
  if (!ends) return ends.status();
  for (std::size_t r = 0; r < ends->size(); ++r) {
    const Bytes& text = (*ends)[r];
    if (text.empty()) continue;
    made->refusal_ =
        fmt::format("rank {} cannot join the hierarchy: {}", r,
                    std::string(reinterpret_cast<const char*>(text.data()), text.size()));
    break;
  }
  return made;
}

Status Hierarchy::open(Bootstrap& bootstrap, const CommunicatorOptions& options,
                       const crypto::Secret& key, const engine::RankNames& names) {
  CommunicatorOptions side = options;
  side.aggregators.clear();
  const auto join = [&](std::vector<Rank> members, const std::string& device,
                        std::shared_ptr<CommunicatorImpl>& state) -> Status {
    SubsetBootstrap part(bootstrap, members);
    Status status;
    if (part.rank() < rank_of(part.size())) {
      side.device_name = device;
      side.multicast = device == kSharedMemory ? "ud" : options.multicast;
      side.receive_workers = 0;
      auto created =
          CommunicatorImpl::create(part, side, progress_,
                                   {.number = progress_->next_number(),
                                    .name = fmt::format("rank {} of the job", index(job_rank_)),
                                    .members = names.in_job(std::move(members)),
                                    .job_size = names.job_size(bootstrap.size()),
                                    .key = &key});
      if (created) {
        state = std::move(*created);
        progress_->use_number(state->number());
      }
      status = created.status();
    }
    const Status rest = part.finish(options.create_timeout);
    return status.ok() ? rest : status;
  };
  const std::uint32_t place = layout_.place_of(rank_);
  // The host sides are created first, and then the across sides. Every rank takes part in the
  // exchanges for both, so a rank without an across side calls finish() for the second part.
  const Status within = join(layout_.ranks_of_host(layout_.host_of(rank_)), kSharedMemory, host_);
  const Status between = join(layout_.ranks_of_place(groups_ ? place : 0), "ip", across_);
  return within.ok() ? between : within;
}

Hierarchy::~Hierarchy() = default;

std::string Hierarchy::describe() const {
  const std::uint32_t parts = layout_.parts;
  return fmt::format("{} hosts of {} ranks each, joined by shared memory{}{}",
                     layout_.hosts / parts, layout_.ranks_per_host * parts,
                     parts > 1 ? fmt::format(", {} leaders a host", parts) : "",
                     groups_ ? ", long blocks by groups" : "");
}

CallRoute::CounterList Hierarchy::counters() const {
  std::map<std::string, std::uint64_t> total;
  progress_->with_engine([&] {
    for (const auto& side : {host_, across_}) {
      if (!side) continue;
      for (const auto& [name, value] : observe::list(side->context().counters())) {
        total[name] += value;
      }
    }
  });
  total["hierarchical_calls"] = calls_.load(std::memory_order_relaxed);
  return {total.begin(), total.end()};
}

// ---- calls --------------------------------------------------------------------------------------

bool Hierarchy::serves(const CollectiveCall& call) const {
  if (!hierarchy::goes_by_hosts(call.collective)) return false;
  if (call.options.algorithm == kHierarchical) return true;
  return call.options.algorithm == Algorithm::automatic && better_by_hosts(call, layout_) &&
         !overruled_(call);
}

Result<std::string> Hierarchy::algorithm_of(const CollectiveCall& call) {
  if (Status fits = check_call(call, rank_, layout_.ranks()); !fits) return fits;
  return std::string(kHierarchical.name());
}

CallRoute::Outcome Hierarchy::start(const CollectiveCall& call) {
  if (Status fits = check_call(call, rank_, layout_.ranks()); !fits) return fits;
  const auto job = std::make_shared<Job>(
      Job{.call = hierarchy::HierarchicalCall(stages_by_hosts(call, layout_, groups_, rank_))});
  job->completion->chunks_total = job->call.stages();
  calls_.fetch_add(1, std::memory_order_relaxed);
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
    first = jobs_.size() == 1;
  }
  if (first) run(job);
  // A caller that does not wait cannot begin the later stages, so the progress thread is woken to
  // begin them.
  if (!call.options.will_wait) progress_->wake();
  return job->completion;
}

Result<CallRoute::PreparedRun> Hierarchy::prepare(const CollectiveCall& call) {
  if (Status fits = check_call(call, rank_, layout_.ranks()); !fits) return fits;
  return PreparedRun([this, call] { return start(call); });
}

void Hierarchy::run(const std::shared_ptr<Job>& job) { advance(job, std::unique_lock(mutex_)); }

/// Begins every stage that may begin now, and ends the call after its last stage.
void Hierarchy::advance(const std::shared_ptr<Job>& job, std::unique_lock<std::mutex> lock) {
  if (job->advancing) return;
  job->advancing = true;
  for (std::size_t stage = job->call.ready(); stage != HierarchyStage::kNone;
       stage = job->call.ready()) {
    job->call.begin(stage);
    lock.unlock();
    begin_contained(job, stage);
    lock.lock();
  }
  job->advancing = false;
  if (!job->call.over()) return;
  lock.unlock();
  // Only the owner of the engine may call finish(). If every stage ends as soon as it begins, the
  // call ends in the thread that started it, and this thread may not own the engine.
  progress_->with_engine([&] { finish(job); });
}

/// Begins a stage. If begin() throws, it has submitted no operation, and the stage ends with the
/// error of the exception.
void Hierarchy::begin_contained(const std::shared_ptr<Job>& job, std::size_t stage) {
  try {
    begin(job, stage);
  } catch (...) {
    const Status status = status_of_exception();
    progress_->with_engine([&] { on_stage_end(job, stage, status); });
  }
}

void Hierarchy::begin(const std::shared_ptr<Job>& job, std::size_t stage) {
  const HierarchyStage& plan = job->call.stage(stage);
  CommunicatorImpl& side = side_of(plan);
  CollectiveCall call = plan.call;
  call.sizes_bytes = plan.sizes;
  call.offsets_bytes = plan.offsets;
  auto operation = side.calls().make(call);
  if (!operation) {
    return progress_->with_engine([&] { on_stage_end(job, stage, operation.status()); });
  }
  engine::CommunicatorContext& context = side.context();
  // A thread that waits for the call may poll the slot exchange of this stage inline.
  job->completion->inline_poll_context = (*operation)->meets() ? &context : nullptr;
  // The callback holds only a weak reference to this route, to avoid a cycle: the route owns a side
  // communicator, which owns the callback.
  (*operation)->completion()->callback = [weak = weak_from_this(), job,
                                          stage](const Status& status) {
    if (const auto self = weak.lock()) self->on_stage_end(job, stage, status);
  };
  if (progress_->caller_owns_engine()) {
    progress_->go_on(context, std::move(*operation));
  } else {
    progress_->submit(context, std::move(*operation), true);
  }
}

void Hierarchy::on_stage_end(const std::shared_ptr<Job>& job, std::size_t stage,
                             const Status& status) {
  // The status of a side communicator names the ranks at fault by their numbers in the job, which
  // are also the numbers that give_up() expects.
  if (!status.ok()) give_up(status.ranks(), status.message());
  std::unique_lock lock(mutex_);
  job->call.end(stage, status);
  job->completion->chunks_present = job->call.ended();
  if (failed_.ok()) failed_ = status;
  advance(job, std::move(lock));
}

void Hierarchy::finish(const std::shared_ptr<Job>& job) {
  std::shared_ptr<Job> next;
  {
    const std::lock_guard lock(mutex_);
    jobs_.pop_front();
    if (!jobs_.empty()) next = jobs_.front();
  }
  job->completion->end(job->call.status());
  if (next) run(next);
}

void Hierarchy::abort(const std::string& reason) { give_up({&job_rank_, 1}, reason); }

void Hierarchy::fail_because(const Status& cause) {
  for (const auto& side : {host_, across_}) {
    if (side) EnginePoller::fail_because(side->context(), cause);
  }
}

void Hierarchy::on_failure(const std::function<void(const Status&)>& hook) {
  for (const auto& side : {host_, across_}) {
    if (side) side->context().failures().on_failure(hook);
  }
}

void Hierarchy::poll() {
  for (const auto& side : {host_, across_}) {
    if (side) side->context().poll(now());
  }
}

Status Hierarchy::status() const {
  {
    const std::lock_guard lock(mutex_);
    if (!failed_.ok()) return failed_;
  }
  for (const auto& side : {host_, across_}) {
    if (!side) continue;
    if (Status failed = side->status(); !failed) return failed;
  }
  return {};
}

bool Hierarchy::busy() const {
  const std::lock_guard lock(mutex_);
  return !jobs_.empty();
}

Status Hierarchy::close(Instant deadline) {
  Status first;
  for (const auto& side : {host_, across_}) {
    if (!side) continue;
    Status end = side->close(deadline);
    if (first.ok()) first = std::move(end);
  }
  return first;
}

// Ranks on other hosts may not notice that a rank was lost. This rank therefore aborts both side
// communicators with an error that names the ranks at fault.
void Hierarchy::give_up(std::span<const Rank> culprits, const std::string& reason) {
  // The engine may skip a side communicator that has no calls. with_engine() makes the next round
  // of polling check it for a failure.
  progress_->with_engine([&] {
    for (const auto& side : {host_, across_}) {
      if (side) side->context().failures().abort_for(culprits, reason);
    }
  });
}

}  // namespace tutti::runtime
