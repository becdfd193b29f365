#include "backend.hpp"

#include <algorithm>

#include "live_groups.hpp"

namespace tutti::torch_backend {
namespace {

using namespace std::chrono_literals;

/// destroy_process_group serves peers that still need data from this rank, but at most this long.
constexpr std::chrono::milliseconds kShutdownPatience = 30s;

/// A group that is freed without destroy_process_group serves its peers, but at most this long.
constexpr std::chrono::milliseconds kDestructorPatience = 1s;

/// Allgathers have high priority, because they bring parameters, for which computation waits.
/// Reductions bring gradients, for which computation does not wait.
std::int32_t usual_priority(c10d::OpType type) {
  const bool gathers = type == c10d::OpType::ALLGATHER || type == c10d::OpType::_ALLGATHER_BASE ||
                       type == c10d::OpType::ALLGATHER_COALESCED;
  return gathers ? TUTTI_PRIORITY_HIGH : TUTTI_PRIORITY_NORMAL;
}

}  // namespace

TuttiBackend::TuttiBackend(std::shared_ptr<Group> group, c10::intrusive_ptr<c10d::Store> store)
    : Backend(group->rank, group->size),
      group_(std::move(group)),
      submissions_(std::make_shared<Submissions>(group_, std::move(store))) {
  init();
  LiveGroups::instance().add(group_->name, submissions_);
}

TuttiBackend::~TuttiBackend() { submissions_->shut_down(kDestructorPatience); }

c10::intrusive_ptr<c10d::Backend::Options> TuttiBackend::getBackendOptions() {
  auto options =
      c10::make_intrusive<Options>("tutti", std::chrono::milliseconds(group_->timeout_ms.load()));
  options->group_name = group_->name;
  for (const std::int64_t rank : group_->global_ranks)
    options->global_ranks_in_group.push_back(static_cast<std::uint64_t>(rank));
  return options;
}

void TuttiBackend::setTimeout(std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0)
    raise("the timeout of a group is ", timeout.count(), " ms: use 1 ms or more");
  group_->timeout_ms = timeout.count();
}

void TuttiBackend::startCoalescing() {
  const std::lock_guard lock(coalescing_);
  if (coalesced_) raise("startCoalescing was called twice: call endCoalescing first");
  coalesced_.emplace();
}

WorkPointer TuttiBackend::endCoalescing() {
  const std::lock_guard lock(coalescing_);
  if (!coalesced_) raise("endCoalescing was called without startCoalescing");
  std::vector<Issued> operations = std::move(*coalesced_);
  coalesced_.reset();
  return c10::make_intrusive<OperationWork>(group_->rank, c10d::OpType::COALESCED, nullptr,
                                            std::move(operations));
}

TuttiBackend::Issued TuttiBackend::prepare(c10d::OpType type, const char* name,
                                           const Terms& terms) {
  auto operation = std::make_shared<Operation>(group_, submissions_);
  operation->plan.type = type;
  operation->plan.name = name;
  operation->plan.timeout = terms.timeout.count() > 0
                                ? terms.timeout
                                : std::chrono::milliseconds(group_->timeout_ms.load());
  operation->plan.will_wait = terms.will_wait;
  operation->plan.priority = group_->options.priority().value_or(usual_priority(type));
  return operation;
}

WorkPointer TuttiBackend::issue(const Issued& operation) {
  Plan& plan = operation->plan;
  plan.sequence = plan.is_message() ? ++messages_ : ++sequence_;
  // The Work is made before the start, because it keeps the tensors alive if memory then runs out.
  auto work = c10::make_intrusive<OperationWork>(group_->rank, plan.type, plan.name,
                                                 std::vector{operation});
  submissions_->issue(operation);
  const std::lock_guard lock(coalescing_);
  if (coalesced_) coalesced_->push_back(operation);
  return work;
}

void TuttiBackend::check_rank(const char* name, const char* what, std::int64_t rank) const {
  if (rank >= 0 && rank < group_->size) return;
  raise(name, ": ", what, " is rank ", rank, ": use a rank from 0 to ", group_->size - 1,
        " of group '", group_->name, "'");
}

bool TuttiBackend::is_root(const char* name, std::int64_t root) const {
  check_rank(name, "the root", root);
  return root == group_->rank;
}

c10d::ErrorType TuttiBackend::getError() {
  switch (submissions_->status().status) {
    case TUTTI_OK:
      return c10d::ErrorType::SUCCESS;
    case TUTTI_TIMEOUT:
      return c10d::ErrorType::TIMEOUT;
    case TUTTI_PEER_FAILED:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

void TuttiBackend::abort() { submissions_->abort("the application aborted the group"); }

void TuttiBackend::shutdown() {
  submissions_->shut_down(
      std::min(kShutdownPatience, std::chrono::milliseconds(group_->timeout_ms.load())));
}

}  // namespace tutti::torch_backend
