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
// What a rank receives of an Allgather may be so long to go hierarchically where the call leaves
// the choice. 2 hosts of 4 ranks on 2 cores, two runs: of 256 KiB a rank 0.67 and 0.59 of the time
// of the flat one, of 1 MiB 0.73 and 0.79.
constexpr std::uint64_t kShortAllgatherBytes = 8 * 1024 * 1024;
// What a host shares at once of a long Broadcast, unless that were too many parts. 2 hosts of 4
// ranks, links of 1 Gbit/s, 1, 4, 16 MiB: 8.2, 34.1, 136 ms, by segments of 64 KiB 8.1, 33.6, 136,
// of 1 MiB 9.0, 34.6, 137, whole 9.0, 37.9, 151; on links without limit 2.1, 7.0, 27.9, by 64
// KiB 2.1, 7.9, 27.4, whole 2.0, 6.9, 27.5, flat 2.9, 10.0, 32.8.
constexpr std::size_t kSegmentBytes = 256 * 1024;
constexpr std::size_t kMostSegments = 16;
constexpr const char* kSharedMemory = "host";

std::vector<Rank> run_of(std::uint32_t first, std::uint32_t count, std::uint32_t step) {
  std::vector<Rank> ranks;
  for (std::uint32_t i = 0; i < count; ++i) ranks.push_back(rank_of(first + i * step));
  return ranks;
}

/// A Broadcast's buffer in the parts that hosts share one while the next is on its way; the same at
/// all ranks.
std::vector<std::span<std::byte>> segments_of(std::span<std::byte> buffer) {
  const std::size_t each = (buffer.size() / (kMostSegments * kSegmentBytes) + 1) * kSegmentBytes;
  std::vector<std::span<std::byte>> segments;
  do {
    segments.push_back(buffer.first(std::min(each, buffer.size())));
    buffer = buffer.subspan(segments.back().size());
  } while (!buffer.empty());
  return segments;
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
  if (!by_choice_ || call.options.algorithm != Algorithm::automatic) return false;
  return call.collective != Collective::allgather || call.receive.size() <= kShortAllgatherBytes;
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
  const Rank roots_place = here ? rank_of(layout_.place_of(call.root)) : rank_of(0);
  std::vector<Stage> stages;
  for (const std::span<std::byte> segment : segments_of(call.receive)) {
    Stage within{host_.get(), call};
    within.call.receive = segment;
    within.call.root = roots_place;
    Stage between{leaders_.get(), call};
    between.call.receive = segment;
    between.call.root = rank_of(roots_host);
    if (!leads()) {
      stages.push_back(within);
    } else if (call.root == rank_) {
      // The other hosts are what takes long: a root that leads sends to them first.
      stages.insert(stages.end(), {between, within});
    } else if (here) {
      between.after = stages.size();
      stages.insert(stages.end(), {within, between});
    } else {
      within.after = stages.size();
      stages.insert(stages.end(), {between, within});
    }
  }
  return stages;
}

std::vector<Hierarchy::Stage> Hierarchy::one_after_the_other(std::vector<Stage> stages) {
  for (std::size_t i = 1; i < stages.size(); ++i) stages[i].after = i - 1;
  return stages;
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
  if (!leads()) return one_after_the_other({up, down});
  return one_after_the_other({up, across, down});
}

std::vector<Hierarchy::Stage> Hierarchy::barrier_stages(const CollectiveCall& call) const {
  const Stage within{host_.get(), call};
  if (!leads()) return one_after_the_other({within, within});
  return one_after_the_other({within, {leaders_.get(), call}, within});
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
  if (first) run(job);
  // The stages come by themselves only while somebody drives.
  if (!call.options.will_wait) progress_->wake();
  return job->completion;
}

std::size_t Hierarchy::Job::ready() const {
  if (!status.ok()) return Stage::kNone;
  const CommunicatorState* held = nullptr;  // its stages begin in their order
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Stage& stage = stages[i];
    if (stage.begun || stage.side == held) continue;
    if (stage.after == Stage::kNone || stages[stage.after].ended) return i;
    if (held != nullptr) break;
    held = stage.side;
  }
  return Stage::kNone;
}

void Hierarchy::run(const std::shared_ptr<Job>& job) { advance(job, std::unique_lock(mutex_)); }

/// Begins what may begin, and ends the job with its last stage.
void Hierarchy::advance(const std::shared_ptr<Job>& job, std::unique_lock<std::mutex> lock) {
  if (job->advancing) return;
  job->advancing = true;
  for (std::size_t stage = job->ready(); stage != Stage::kNone; stage = job->ready()) {
    job->stages[stage].begun = true;
    ++job->begun;
    lock.unlock();
    begin(job, stage);
    lock.lock();
  }
  job->advancing = false;
  if (!job->over()) return;
  lock.unlock();
  finish(job);
}

void Hierarchy::begin(const std::shared_ptr<Job>& job, std::size_t stage) {
  const Stage& begun = job->stages[stage];
  auto operation = begun.side->calls().make(begun.call);
  if (!operation) return on_stage_end(job, stage, operation.status());
  engine::CommunicatorContext& context = begun.side->context();
  // Who waits for the job looks at the board where it is.
  job->completion->meets_in = (*operation)->meets() ? &context : nullptr;
  // Not kept alive by what runs on its own side communicators.
  (*operation)->completion()->callback = [weak = weak_from_this(), job,
                                          stage](const Status& status) {
    if (const auto self = weak.lock()) self->on_stage_end(job, stage, status);
  };
  if (progress_->driven_by_caller()) {
    progress_->go_on(context, std::move(*operation));
  } else {
    progress_->submit(context, std::move(*operation), true);
  }
}

void Hierarchy::on_stage_end(const std::shared_ptr<Job>& job, std::size_t stage,
                             const Status& status) {
  if (!status.ok()) give_up(culprit_of(*job->stages[stage].side), status.message());
  std::unique_lock lock(mutex_);
  job->stages[stage].ended = true;
  ++job->ended;
  job->completion->chunks_present = job->ended;
  if (job->status.ok()) job->status = status;
  advance(job, std::move(lock));
}

void Hierarchy::finish(const std::shared_ptr<Job>& job) {
  std::shared_ptr<Job> next;
  {
    const std::lock_guard lock(mutex_);
    jobs_.pop_front();
    if (!jobs_.empty()) next = jobs_.front();
  }
  engine::Completion& completion = *job->completion;
  completion.status = job->status;
  if (completion.callback) completion.callback(job->status);
  completion.done.store(true, std::memory_order_release);
  if (next) run(next);
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
