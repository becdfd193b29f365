#include "tutti/communicator.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "crypto/secret.hpp"
#include "runtime/aggregator/aggregation_options.hpp"
#include "runtime/bootstrap/callback_bootstrap.hpp"
#include "runtime/bootstrap/detect.hpp"
#include "runtime/bootstrap/split.hpp"
#include "runtime/bootstrap/subset_bootstrap.hpp"
#include "runtime/bootstrap/unique_id.hpp"
#include "runtime/communicator/at_home.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/communicator/create.hpp"
#include "runtime/communicator/prepared_state.hpp"
#include "runtime/communicator/wait_set.hpp"
#include "runtime/diagnostics/counter_list.hpp"
#include "runtime/diagnostics/flight_dump.hpp"
#include "runtime/keys/job_key.hpp"
#include "runtime/progress/exception_status.hpp"
#include "runtime/progress/new_thread.hpp"
#include "runtime/routes/join_routes.hpp"

namespace tutti {

using runtime::at_home;
using runtime::guarded;
using runtime::logged;
using runtime::logged_at_home;

namespace {

Status no_request() {
  return failure(Code::invalid_argument,
                 "the request is empty: use one that a collective returned");
}

/// Fails in a child of fork(), and in a completion callback if the call of `request` is not done.
/// While a callback waits, no call makes progress.
Status check_may_wait(const runtime::RequestState& request) {
  if (Status status = request.communicator->check_home(); !status) return status;
  if (request.completion->done.load(std::memory_order_acquire) ||
      request.communicator->progress()->caller_may_wait())
    return {};
  return failure(
      Code::invalid_argument,
      "rank {}: a completion callback waits for a collective, which makes no progress until the "
      "callback returns: wait in another thread, or set a callback on that collective",
      index(request.communicator->rank()));
}

/// Waits for a call; false: the call is not done at the deadline. `waits_again`: the caller will
/// wait for another call immediately after this one. Fails if this thread may not wait.
Result<bool> wait_until(const runtime::RequestState& request, Instant deadline,
                        bool waits_again = false) {
  if (Status status = check_may_wait(request); !status) return status;
  return request.communicator->progress()->wait(*request.completion, deadline, waits_again);
}

/// Converts rank numbers of a communicator to the job's rank numbers.
std::set<Rank> in_job(const engine::RankNames& names, const std::set<Rank>& ranks) {
  const std::vector<Rank> job_ranks = names.in_job({ranks.begin(), ranks.end()});
  return {job_ranks.begin(), job_ranks.end()};
}

/// The data that a call still lacks, and the ranks that must send these data. The ranks have their
/// numbers in the job.
engine::Missing missing_of(const runtime::RequestState& request) {
  engine::CommunicatorContext& context = request.communicator->context();
  engine::Missing missing = request.communicator->progress()->with_engine(
      [&] { return context.operations().missing_of(*request.completion); });
  missing.ranks = in_job(context.names(), missing.ranks);
  return missing;
}

/// The ranks that must still send data for at least one of the calls, by their numbers in the job.
std::vector<Rank> missing_ranks(std::span<const runtime::RequestState* const> requests) {
  std::set<Rank> ranks;
  for (const runtime::RequestState* one : requests) ranks.merge(missing_of(*one).ranks);
  return {ranks.begin(), ranks.end()};
}

void abort_calls(runtime::CommunicatorImpl& state, const std::string& reason) {
  // A completion callback may call abort(). This function does not poll in a callback, because the
  // poll that runs the callback also carries out the abort.
  const bool within_callback = state.progress()->caller_owns_engine();
  state.progress()->with_engine([&] {
    runtime::EnginePoller::run_contained(state.context(), [&] {
      state.abort(reason);
      return true;
    });
    if (!within_callback) state.poll_routes();
  });
}

double seconds_of(Nanoseconds time) { return static_cast<double>(time.count()) / 1e9; }

/// The key for the creation of a communicator: derived from the secret of `parent`, or the job key
/// if there is no parent. Nothing if the job has no key.
Result<std::optional<crypto::Secret>> job_key_of(const runtime::Bootstrap& bootstrap,
                                                 const CommunicatorOptions& options,
                                                 const runtime::CommunicatorImpl* parent) {
  if (parent != nullptr) return std::optional(parent->child_key().copy());
  auto key = runtime::find_job_key(options, bootstrap, runtime::process_environment());
  if (key && !*key && bootstrap.rank() == Rank{0} && bootstrap.size() > 1)
    runtime::warn_of_missing_key(bootstrap);
  return key;
}

/// Creates a communicator with the options `given` and with the aggregators and algorithm rules
/// that environment variables name. `parent` is the communicator from which the new one is made, or
/// null; `members` are the ranks of `parent` that belong to the new communicator.
Result<std::shared_ptr<runtime::CommunicatorImpl>> create_state(runtime::Bootstrap& bootstrap,
                                                                const CommunicatorOptions& given,
                                                                runtime::CommunicatorImpl* parent,
                                                                std::vector<Rank> members = {},
                                                                std::uint32_t first_epoch = 1) {
  const std::uint16_t number =
      parent != nullptr ? parent->progress()->next_number() : std::uint16_t{0};
  auto with_aggregators = runtime::with_aggregators_of_environment(given);
  if (!with_aggregators) return with_aggregators.status();
  CommunicatorOptions options = std::move(*with_aggregators);
  std::uint32_t job_size = 0;
  if (parent != nullptr) {
    if (!parent->no_multicast().empty()) options.multicast = "none";
    members = parent->context().names().in_job(std::move(members));
    job_size = parent->context().names().job_size(parent->context().size());
  }
  auto choices = runtime::CallPlanner::choices_from_environment();
  if (!choices) return choices.status();
  const auto key = job_key_of(bootstrap, given, parent);
  if (!key) return key.status();
  auto state = runtime::CommunicatorImpl::create(bootstrap, options,
                                                 parent != nullptr ? parent->progress() : nullptr,
                                                 {.number = number,
                                                  .choices = std::move(*choices),
                                                  .members = std::move(members),
                                                  .job_size = job_size,
                                                  .traced_by_wish = true,
                                                  .first_epoch = first_epoch,
                                                  .key = *key ? &**key : nullptr});
  if (!state) return state.status();
  if (parent != nullptr) parent->progress()->use_number((*state)->number());
  if (Status status = runtime::join_hosts(**state, bootstrap, options); !status) return status;
  if (Status status = runtime::join_aggregators(**state, bootstrap, options); !status)
    return status;
  return state;
}

/// Carries out one exchange of a bootstrap as an Allgather of `communicator`. If the Allgather does
/// not end in time, the communicator is aborted.
Status exchange_over(Communicator& communicator, std::span<const std::byte> mine,
                     std::span<std::byte> all, Nanoseconds timeout) {
  auto request = communicator.allgather(mine, all, {.will_wait = true});
  if (!request) return request.status();
  const Status status = request->wait_for(timeout);
  // The call may have ended since the wait timed out. A second wait returns the status of the call.
  if (request->progress().done) return request->wait_for(Nanoseconds(0));
  // A later call of this rank would meet a different call of the peers. The abort also ends the
  // Allgather, which uses the buffers of the caller, so it must come even if no text can be made.
  const auto text = guarded([&]() -> Result<std::string> {
    return fmt::format(
        "the creation of a communicator from this one was given up ({}): call duplicate, split or "
        "subset on all ranks within create_timeout, or raise create_timeout",
        status.message());
  });
  const std::string no_text;
  communicator.abort(text ? *text : no_text);
  while (!request->progress().done) (void)request->wait();
  return status;
}

/// Fails if no communicator can be made from `parent` now.
Status check_may_be_parent(runtime::CommunicatorImpl& parent) {
  if (parent.progress()->caller_owns_engine())
    return failure(Code::invalid_argument,
                   "rank {}: a completion callback makes a communicator from another one, which "
                   "makes no progress until the callback returns: make it in another thread",
                   index(parent.rank()));
  return parent.check_usable();
}

/// A bootstrap whose exchanges are Allgathers of a communicator.
Result<std::unique_ptr<runtime::Bootstrap>> bootstrap_over(Communicator& communicator) {
  return runtime::make_callback_bootstrap(
      communicator.rank(), communicator.size(),
      [&communicator](std::span<const std::byte> mine, std::span<std::byte> all,
                      Nanoseconds timeout) {
        return exchange_over(communicator, mine, all, timeout);
      },
      "another communicator");
}

std::vector<Rank> all_ranks(std::uint32_t size) {
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < size; ++r) ranks.push_back(rank_of(r));
  return ranks;
}

using NewState = Result<std::shared_ptr<runtime::CommunicatorImpl>>;

/// Creates the communicator of `members`, which are ranks of `parent`, or null at a rank that is no
/// member. Every rank of `whole` calls this function, even with an error instead of members:
/// otherwise its next exchange would meet the exchanges of the other ranks.
NewState create_part(runtime::Bootstrap& whole, runtime::CommunicatorImpl& parent,
                     const Result<std::vector<Rank>>& members, const CommunicatorOptions& options) {
  runtime::SubsetBootstrap part(whole, members ? *members : std::vector<Rank>());
  auto made = guarded([&]() -> NewState {
    if (!members) return members.status();
    if (members->empty()) return std::shared_ptr<runtime::CommunicatorImpl>();
    return create_state(part, options, &parent, *members);
  });
  const Status finished = part.finish(options.create_timeout);
  return made && !finished ? finished : made;
}

/// Takes part in a split and creates this rank's new communicator; null: this rank joins none.
NewState split_state(Communicator& whole, runtime::CommunicatorImpl& parent,
                     const runtime::SplitChoice& mine, const CommunicatorOptions& options) {
  if (Status status = check_may_be_parent(parent); !status) return status;
  auto bootstrap = bootstrap_over(whole);
  if (!bootstrap) return bootstrap.status();
  const auto members = runtime::agree_on_split(**bootstrap, mine, options.create_timeout);
  return create_part(**bootstrap, parent, members, options);
}

}  // namespace

// ---- Request ------------------------------------------------------------------------------------

bool Request::test() {
  // In a child of fork() the request counts as done, so that no loop waits for it.
  if (!state_ || !state_->communicator->check_home()) return true;
  if (!state_->completion->done.load(std::memory_order_acquire)) {
    logged([&] { state_->communicator->progress()->poll(); });
  }
  return state_->completion->done.load(std::memory_order_acquire);
}

Status Request::wait() { return wait_for(Nanoseconds::max()); }

Status Request::wait_for(Nanoseconds timeout) {
  if (!state_) return no_request();
  return guarded([&]() -> Status {
    const auto ended = wait_until(*state_, runtime::instant_after(timeout));
    if (!ended) return ended.status();
    if (*ended) return state_->completion->status;
    const engine::Missing missing = missing_of(*state_);
    const ProgressReport report = progress();
    if (report.done) return state_->completion->status;
    return failure_of(
        {missing.ranks.begin(), missing.ranks.end()}, Code::timeout,
        "the call is not complete after {:.3f} s at rank {}: {} of {} chunks or tasks "
        "are done{}{}; wait longer, or look for the rank that has not made its call",
        seconds_of(timeout), index(state_->communicator->rank()), report.chunks_present,
        report.chunks_total, missing.text.empty() ? "" : ", missing here: ", missing.text);
  });
}

Status Request::wait_all(std::span<Request> requests, Nanoseconds timeout) {
  return guarded([&]() -> Status {
    const Instant deadline = runtime::instant_after(timeout);
    Status first;
    std::size_t calls = 0;
    std::vector<const runtime::RequestState*> open;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const runtime::RequestState* const call = requests[i].state_.get();
      if (call == nullptr) continue;
      ++calls;
      const bool waits_again =
          std::any_of(requests.begin() + i + 1, requests.end(), [&](const Request& later) {
            return later.state_ != nullptr &&
                   later.state_->communicator->progress() == call->communicator->progress();
          });
      const auto ended = wait_until(*call, deadline, waits_again);
      if (!ended) return ended.status();
      if (!*ended) {
        open.push_back(call);
      } else if (first.ok()) {
        first = call->completion->status;
      }
    }
    if (open.empty()) return first;
    return failure_of(
        missing_ranks(open), Code::timeout,
        "{} of {} calls are not complete after {:.3f} s: wait longer, or look for the "
        "rank that has not made its calls",
        open.size(), calls, seconds_of(timeout));
  });
}

Result<std::size_t> Request::wait_any(std::span<Request> requests, Nanoseconds timeout) {
  return guarded([&]() -> Result<std::size_t> {
    const auto done = [&]() -> std::optional<std::size_t> {
      for (std::size_t i = 0; i < requests.size(); ++i)
        if (requests[i].state_ && requests[i].progress().done) return i;
      return std::nullopt;
    };
    std::vector<const runtime::RequestState*> states;
    for (const Request& one : requests) {
      if (!one.state_) continue;
      if (Status status = check_may_wait(*one.state_); !status) return status;
      states.push_back(one.state_.get());
    }
    if (states.empty()) return no_request();
    if (const auto index = done()) return *index;
    runtime::WaitSet set(states);
    if (set.wait(runtime::instant_after(timeout))) return done().value();
    return failure_of(missing_ranks(states), Code::timeout,
                      "none of {} calls is complete after {:.3f} s: wait longer, or look for the "
                      "rank that has not made its calls",
                      states.size(), seconds_of(timeout));
  });
}

ProgressReport Request::progress() const {
  if (!state_) return {};
  const engine::Completion& completion = *state_->completion;
  return {completion.chunks_present.load(std::memory_order_relaxed),
          completion.chunks_total.load(std::memory_order_relaxed),
          completion.done.load(std::memory_order_acquire)};
}

Status Request::cancel() {
  if (!state_) return no_request();
  return at_home(*state_->communicator, [&] { return state_->communicator->cancel(*state_); });
}

MessageInfo Request::message() const {
  if (!state_ || !state_->completion->done.load(std::memory_order_acquire)) return {};
  return state_->completion->message;
}

// ---- Communicator -------------------------------------------------------------------------------

Communicator::Communicator(std::shared_ptr<runtime::CommunicatorImpl> state)
    : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Result<Communicator> Communicator::create(const CommunicatorOptions& options) {
  return guarded([&]() -> Result<Communicator> {
    auto bootstrap =
        runtime::detect(options.create_timeout, runtime::process_environment(), options.job_key);
    if (!bootstrap) return bootstrap.status();
    return runtime::create_communicator(**bootstrap, options);
  });
}

Result<Communicator> Communicator::create(const UniqueId& id, Rank rank, std::uint32_t size,
                                          const CommunicatorOptions& options) {
  return guarded([&]() -> Result<Communicator> {
    auto bootstrap = runtime::join_unique_id(id.text, rank, size, options.create_timeout);
    if (!bootstrap) return bootstrap.status();
    return runtime::create_communicator(**bootstrap, options);
  });
}

Result<Communicator> Communicator::create(const ExchangeCallback& exchange, Rank rank,
                                          std::uint32_t size, const CommunicatorOptions& options) {
  return guarded([&]() -> Result<Communicator> {
    auto bootstrap = runtime::make_callback_bootstrap(rank, size, exchange);
    if (!bootstrap) return bootstrap.status();
    return runtime::create_communicator(**bootstrap, options);
  });
}

Result<Communicator> runtime::create_communicator(runtime::Bootstrap& bootstrap,
                                                  const CommunicatorOptions& options,
                                                  const Communicator* parent,
                                                  std::uint32_t first_epoch) {
  return guarded([&]() -> Result<Communicator> {
    auto state = parent == nullptr
                     ? create_state(bootstrap, options, nullptr, {}, first_epoch)
                     : create_part(bootstrap, *parent->state_, all_ranks(parent->size()), options);
    if (!state) return state.status();
    return Communicator(std::move(*state));
  });
}

Result<Communicator> Communicator::duplicate(const CommunicatorOptions& options) {
  return at_home(*state_, [&]() -> Result<Communicator> {
    if (Status status = check_may_be_parent(*state_); !status) return status;
    auto bootstrap = bootstrap_over(*this);
    if (!bootstrap) return bootstrap.status();
    return runtime::create_communicator(**bootstrap, options, this);
  });
}

Result<std::optional<Communicator>> Communicator::split(std::optional<std::uint32_t> color,
                                                        std::int64_t key,
                                                        const CommunicatorOptions& options) {
  return at_home(*state_, [&]() -> Result<std::optional<Communicator>> {
    auto part = split_state(*this, *state_, {.color = color, .key = key}, options);
    if (!part) return part.status();
    return *part ? std::optional(Communicator(std::move(*part))) : std::nullopt;
  });
}

Result<std::optional<Communicator>> Communicator::subset(std::span<const Rank> ranks,
                                                         const CommunicatorOptions& options) {
  return at_home(*state_, [&]() -> Result<std::optional<Communicator>> {
    const auto choice =
        runtime::SplitChoice::of_named({ranks.begin(), ranks.end()}, rank(), size());
    // A rank with a wrong list takes part as a rank that joins no communicator, because the other
    // ranks wait for its contribution.
    auto part = split_state(*this, *state_, choice ? *choice : runtime::SplitChoice(), options);
    if (!choice) return choice.status();
    if (!part) return part.status();
    return *part ? std::optional(Communicator(std::move(*part))) : std::nullopt;
  });
}

Rank Communicator::rank() const { return state_->rank(); }
std::uint32_t Communicator::size() const { return state_->size(); }

// ---- Observation --------------------------------------------------------------------------------

Status Communicator::on_completion(Request& request, std::function<void(const Status&)> callback) {
  if (!request.state_) return no_request();
  engine::Completion& completion = *request.state_->completion;
  // The caller may pass a request of another communicator. This thread therefore owns the engine of
  // the request's communicator while it accesses the completion.
  runtime::Progress* const progress = request.state_->communicator->progress().get();
  return at_home(*request.state_->communicator, [&]() -> Status {
    // While this thread owns the engine no other thread polls, so the collective cannot complete
    // between the test of `done` and the setting of the callback.
    progress->with_engine([&] {
      if (completion.done.load(std::memory_order_acquire)) {
        progress->call_application(callback, completion.status);
        return;
      }
      progress->expect_callbacks();
      completion.callback = [progress, callback = std::move(callback)](const Status& status) {
        progress->call_application(callback, status);
      };
    });
    return {};
  });
}

Status Communicator::status() const {
  return at_home(*state_, [&]() -> Status {
    Status known = state_->status();
    if (!known) return known;
    // A peer's notice of a failure may have arrived while no thread polled, so this thread polls
    // once.
    state_->progress()->poll_quietly();
    return state_->status();
  });
}

void Communicator::abort(const std::string& reason) {
  logged([&] {
    if (!state_->check_home()) return;
    if (state_->progress()->caller_may_enter()) return abort_calls(*state_, reason);
    runtime::in_new_thread([state = state_, reason] { abort_calls(*state, reason); });
  });
}

Status Communicator::finalize(Nanoseconds timeout) {
  return at_home(*state_, [&] { return state_->finalize(timeout); });
}

std::vector<std::pair<std::string, std::uint64_t>> Communicator::counters() const {
  return logged_at_home(*state_, [&] {
    return state_->progress()->with_engine([&] { return runtime::counters_of(*state_); });
  });
}

std::uint64_t Communicator::link_bytes_per_second() const {
  return logged_at_home(*state_, [&] {
    return state_->progress()->with_engine(
        [&] { return state_->context().network().send_schedule().agreed_rate(); });
  });
}

std::string Communicator::flight_record() const {
  return logged_at_home(*state_, [&] {
    return state_->progress()->with_engine([&] { return runtime::flight_record(*state_); });
  });
}

Result<std::string> Communicator::algorithm_of(const CollectiveCall& call) {
  return at_home(*state_, [&]() -> Result<std::string> {
    if (Status status = state_->check_usable(); !status) return status;
    const auto route = state_->route_of(call);
    return route ? (*route)->algorithm_of(call) : route.status();
  });
}

std::string Communicator::device() const { return state_->device(); }

std::string Communicator::describe() const {
  return logged_at_home(*state_, [&] { return state_->describe(); });
}

}  // namespace tutti
