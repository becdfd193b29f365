#include "runtime/hierarchy.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "observe/counters.hpp"
#include "runtime/bootstrap_part.hpp"
#include "runtime/clock.hpp"
#include "runtime/communicator_state.hpp"
#include "runtime/progress.hpp"

namespace tutti::runtime {

namespace {

// What CommunicatorState::create exchanges.
constexpr std::uint32_t kExchangesOfCreate = 2;
// What a rank receives may be so long to go hierarchically where the call leaves the choice. 2
// hosts of 4 ranks on 2 cores, two runs: Broadcast of 256 KiB 0.79 and 0.50 of the time of the flat
// one, of 1 MiB 1.13 and 0.66; Allgather of 256 KiB a rank 0.67 and 0.59, of 1 MiB 0.73 and 0.79.
constexpr std::uint64_t kShortBroadcastBytes = 512 * 1024;
constexpr std::uint64_t kShortAllgatherBytes = 8 * 1024 * 1024;
constexpr const char* kSharedMemory = "host";

std::vector<Rank> run_of(std::uint32_t first, std::uint32_t count, std::uint32_t step) {
  std::vector<Rank> ranks;
  for (std::uint32_t i = 0; i < count; ++i) ranks.push_back(rank_of(first + i * step));
  return ranks;
}

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

HostLayout HostLayout::of(const std::vector<Greeting>& greetings) {
  const auto same_host = [&](std::size_t a, std::size_t b) {
    return greetings[a].network == greetings[b].network &&
           greetings[a].memory == greetings[b].memory;
  };
  HostLayout layout;
  std::size_t length = 1;
  while (length < greetings.size() && same_host(0, length)) ++length;
  if (greetings.size() % length != 0) return {};
  for (std::size_t r = 0; r < greetings.size(); ++r) {
    const std::size_t first = r / length * length;
    if (!same_host(first, r)) return {};
    // A host that comes again further on would be two.
    for (std::size_t other = first + length; other < greetings.size(); other += length) {
      if (greetings[first].network == greetings[other].network) return {};
    }
  }
  layout.hosts = static_cast<std::uint32_t>(greetings.size() / length);
  layout.ranks_per_host = static_cast<std::uint32_t>(length);
  return layout;
}

// ---- making
// ------------------------------------------------------------------------------------------

Result<std::shared_ptr<Hierarchy>> Hierarchy::create(Bootstrap& bootstrap,
                                                     const CommunicatorOptions& options,
                                                     const HostLayout& layout, bool by_choice,
                                                     std::shared_ptr<Progress> progress,
                                                     std::uint16_t number) {
  std::shared_ptr<Hierarchy> made(
      new Hierarchy(layout, by_choice, bootstrap.rank(), std::move(progress)));
  const Status mine = made->open(bootstrap, options, number);
  // All ranks have it, or none.
  auto ends =
      bootstrap.allgather(bytes_of(mine.ok() ? "" : mine.message()), options.create_timeout);
  if (!ends) return ends.status();
  for (std::size_t r = 0; r < ends->size(); ++r) {
    const Bytes& text = (*ends)[r];
    if (text.empty()) continue;
    return failure(Code::unsupported, "rank {}: {}", r,
                   std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  }
  return made;
}

Status Hierarchy::open(Bootstrap& bootstrap, const CommunicatorOptions& options,
                       std::uint16_t number) {
  CommunicatorOptions side = options;
  side.aggregators.clear();
  const auto join = [&](std::vector<Rank> members, const std::string& device,
                        std::uint16_t its_number,
                        std::shared_ptr<CommunicatorState>& state) -> Status {
    PartBootstrap part(bootstrap, members);
    Status status;
    if (part.rank() < rank_of(part.size())) {
      side.device_name = device;
      side.multicast = device == kSharedMemory ? "ud" : options.multicast;
      side.receive_workers = 0;
      auto created =
          CommunicatorState::create(part, side, progress_,
                                    {.number = its_number,
                                     .name = fmt::format("rank {} of the job", index(rank_)),
                                     .members = std::move(members)});
      if (created) state = std::move(*created);
      status = created.status();
    }
    const Status rest = part.sit_out(kExchangesOfCreate, options.create_timeout);
    return status.ok() ? rest : status;
  };
  const std::uint32_t per_host = layout_.ranks_per_host;
  const std::uint32_t first = layout_.host_of(rank_) * per_host;
  const Status within = join(run_of(first, per_host, 1), kSharedMemory, number, host_);
  const Status between = join(run_of(0, layout_.hosts, per_host), "ip",
                              static_cast<std::uint16_t>(number + 1), leaders_);
  return within.ok() ? between : within;
}

Hierarchy::~Hierarchy() = default;

std::string Hierarchy::describe() const {
  return fmt::format("{} hosts of {} ranks each, joined by shared memory", layout_.hosts,
                     layout_.ranks_per_host);
}

std::vector<std::pair<std::string, std::uint64_t>> Hierarchy::counters() const {
  std::map<std::string, std::uint64_t> total;
  progress_->exclusive([&] {
    for (const auto& side : {host_, leaders_}) {
      if (!side) continue;
      for (const auto& [name, value] : observe::list(side->context().counters())) {
        total[name] += value;
      }
    }
  });
  return {total.begin(), total.end()};
}

// ---- calls
// -------------------------------------------------------------------------------------------

bool Hierarchy::serves(const CollectiveCall& call) const {
  const bool known = call.collective == Collective::barrier ||
                     call.collective == Collective::broadcast ||
                     call.collective == Collective::allgather;
  if (!known) return false;
  if (call.options.algorithm == kHierarchical) return true;
  const std::uint64_t most =
      call.collective == Collective::allgather ? kShortAllgatherBytes : kShortBroadcastBytes;
  return by_choice_ && call.options.algorithm == Algorithm::automatic &&
         call.receive.size() <= most;
}

std::vector<Hierarchy::Stage> Hierarchy::stages_of(const CollectiveCall& call) const {
  CollectiveCall plain = call;
  plain.options = {.will_wait = true};  // whoever drives the first stage drives the others
  if (call.collective == Collective::broadcast) return broadcast_stages(plain);
  if (call.collective == Collective::allgather) return allgather_stages(plain);
  return barrier_stages(plain);
}

/// Within the root's host first, whose leader sends it to the others, who share it in theirs.
std::vector<Hierarchy::Stage> Hierarchy::broadcast_stages(const CollectiveCall& call) const {
  const std::uint32_t roots_host = layout_.host_of(call.root);
  const bool here = layout_.host_of(rank_) == roots_host;
  Stage within{host_.get(), call};
  within.call.root = here ? rank_of(layout_.place_of(call.root)) : rank_of(0);
  Stage between{leaders_.get(), call};
  between.call.root = rank_of(roots_host);
  if (!leads()) return {within};
  // The other hosts are what takes long: a root that leads sends to them first.
  const bool has_it = here && call.root != rank_;
  if (has_it) return {within, between};
  return {between, within};
}

/// Every host's blocks to its leader, the leaders' to each other, and all of them back.
std::vector<Hierarchy::Stage> Hierarchy::allgather_stages(const CollectiveCall& call) const {
  const std::size_t block = call.receive.size() / (layout_.hosts * layout_.ranks_per_host);
  const std::size_t blocks = block * layout_.ranks_per_host;
  const std::span<std::byte> of_host =
      call.receive.subspan(layout_.host_of(rank_) * blocks, blocks);
  Stage up{host_.get(), call};
  up.call.collective = Collective::gather;
  up.call.root = rank_of(0);
  up.call.receive = leads() ? of_host : std::span<std::byte>();
  Stage across{leaders_.get(), call};
  across.call.send = of_host;
  Stage down{host_.get(), call};
  down.call.collective = Collective::broadcast;
  down.call.root = rank_of(0);
  down.call.send = {};
  if (!leads()) return {up, down};
  return {up, across, down};
}

std::vector<Hierarchy::Stage> Hierarchy::barrier_stages(const CollectiveCall& call) const {
  const Stage within{host_.get(), call};
  if (!leads()) return {within, within};
  return {within, {leaders_.get(), call}, within};
}

Hierarchy::Outcome Hierarchy::start(const CollectiveCall& call) {
  auto job = std::make_shared<Job>();
  job->stages = stages_of(call);
  job->completion->chunks_total = job->stages.size();
  calls_.fetch_add(1, std::memory_order_relaxed);
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
    first = jobs_.size() == 1;
  }
  if (first) run_next(job);
  // The stages come by themselves only while somebody drives.
  if (!call.options.will_wait) progress_->wake();
  return job->completion;
}

void Hierarchy::run_next(const std::shared_ptr<Job>& job) {
  const bool first = job->next == 0;
  const Stage& stage = job->stages[job->next++];
  auto operation = stage.side->calls().make(stage.call);
  if (!operation) return on_stage_end(job, operation.status());
  engine::CommunicatorContext& context = stage.side->context();
  // Who waits for the job looks at the board where it is.
  job->completion->meets_in = (*operation)->meets() ? &context : nullptr;
  // Not kept alive by what runs on its own side communicators.
  (*operation)->completion()->callback = [weak = weak_from_this(), job](const Status& status) {
    if (const auto self = weak.lock()) self->on_stage_end(job, status);
  };
  if (first) {
    progress_->submit(context, std::move(*operation), true);
  } else {
    progress_->go_on(context, std::move(*operation));
  }
}

void Hierarchy::on_stage_end(const std::shared_ptr<Job>& job, const Status& status) {
  job->completion->chunks_present = job->next;
  if (!status.ok()) give_up(culprit_of(*job->stages[job->next - 1].side), status.message());
  if (status.ok() && job->next < job->stages.size()) return run_next(job);
  finish(job, status);
}

void Hierarchy::finish(const std::shared_ptr<Job>& job, const Status& status) {
  std::shared_ptr<Job> next;
  {
    const std::lock_guard lock(mutex_);
    jobs_.pop_front();
    if (!jobs_.empty()) next = jobs_.front();
  }
  engine::Completion& completion = *job->completion;
  completion.status = status;
  if (completion.callback) completion.callback(status);
  completion.done.store(true, std::memory_order_release);
  if (next) run_next(next);
}

void Hierarchy::abort(const std::string& reason) { give_up(rank_, reason); }

void Hierarchy::poll() {
  for (const auto& side : {host_, leaders_}) {
    if (side) side->context().poll(now());
  }
}

/// Whose loss has ended a side communicator, by number in the job; kNoRank: nobody's.
Rank Hierarchy::culprit_of(CommunicatorState& failed) const {
  const engine::CommunicatorContext& context = failed.context();
  if (context.culprit() != kNoRank || context.lost() == kNoRank) return context.culprit();
  const std::uint32_t per_host = layout_.ranks_per_host;
  return &failed == host_.get() ? rank_of(layout_.host_of(rank_) * per_host + index(context.lost()))
                                : rank_of(index(context.lost()) * per_host);
}

// A rank that is lost is missed on its own host only; the others have to hear of it, by the number
// that they know it by.
void Hierarchy::give_up(Rank culprit, const std::string& reason) {
  for (const auto& side : {host_, leaders_}) {
    if (side) side->context().abort_for(culprit, reason);
  }
}

}  // namespace tutti::runtime
