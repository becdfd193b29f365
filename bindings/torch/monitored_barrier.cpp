#include "monitored_barrier.hpp"

#include <algorithm>
#include <utility>

#include "deadline.hpp"
#include "failure.hpp"

namespace tutti::torch_backend {
namespace {

/// The bit that marks message tags of the monitored barrier; tags of torch do not have it.
constexpr std::uint64_t kBarrierTags = std::uint64_t{1} << 63;

}  // namespace

MonitoredBarrier::MonitoredBarrier(std::shared_ptr<Group> group, std::uint64_t number,
                                   std::chrono::milliseconds timeout, bool wait_for_all)
    : group_(std::move(group)),
      tag_(kBarrierTags | number),
      timeout_(timeout),
      wait_for_all_(wait_for_all) {}

std::chrono::milliseconds MonitoredBarrier::longest() const {
  // Rank 0 waits at most one timeout for absent ranks. Meanwhile the other ranks wait for rank 0,
  // for at most two timeouts.
  return 2 * timeout_ + std::chrono::seconds(1);
}

void MonitoredBarrier::run(tutti_comm_t* comm) const {
  if (group_->size == 1) return;
  if (group_->rank == 0) {
    run_as_first(comm);
  } else {
    run_as_other(comm);
  }
}

bool MonitoredBarrier::receive(tutti_comm_t* comm, std::uint32_t from,
                               Clock::time_point deadline) const {
  tutti_request_t* request = nullptr;
  if (tutti_irecv(comm, nullptr, 0, from, tag_, UINT64_MAX, &request) != TUTTI_OK) return false;
  const bool came = tutti_request_wait_for(request, nanoseconds_until(deadline)) == TUTTI_OK;
  if (!came) (void)tutti_request_cancel(request);
  tutti_request_free(request);
  return came;
}

void MonitoredBarrier::send(tutti_comm_t* comm, std::uint32_t to) const {
  tutti_request_t* request = nullptr;
  const Failure failure = last_failure(tutti_isend(comm, nullptr, 0, to, tag_, &request));
  tutti_request_free(request);
  if (failure) std::rethrow_exception(error_of(*group_, "monitored_barrier", failure));
}

void MonitoredBarrier::fail(const std::vector<std::uint32_t>& absent) const {
  // The error text begins like that of torch's own monitored barrier, because programs look for the
  // words at its beginning.
  std::string names;
  for (const std::uint32_t rank : absent)
    names += (names.empty() ? "" : ", ") + std::to_string(rank);
  std::rethrow_exception(backend_error(
      c10::str(absent.size() == 1 ? "Rank " : "Ranks ", names,
               " failed to pass monitoredBarrier in ", timeout_.count(), " ms of group '",
               group_->name, "': look for an earlier error of ", name_ranks(*group_, absent))));
}

void MonitoredBarrier::run_as_first(tutti_comm_t* comm) const {
  const auto deadline = Clock::now() + timeout_;
  std::vector<std::uint32_t> absent;
  for (std::uint32_t rank = 1; rank < static_cast<std::uint32_t>(group_->size); ++rank) {
    if (receive(comm, rank, deadline)) continue;
    absent.push_back(rank);
    if (!wait_for_all_) break;
  }
  if (!absent.empty()) fail(absent);
  for (std::uint32_t rank = 1; rank < static_cast<std::uint32_t>(group_->size); ++rank)
    send(comm, rank);
}

void MonitoredBarrier::run_as_other(tutti_comm_t* comm) const {
  send(comm, 0);
  if (receive(comm, 0, Clock::now() + 2 * timeout_)) return;
  std::rethrow_exception(backend_error(c10::str(
      "Rank ", group_->rank, " successfully reached monitoredBarrier of group '", group_->name,
      "', but received errors while waiting for send/recv from rank 0. Please check rank 0 logs "
      "for faulty rank.")));
}

}  // namespace tutti::torch_backend
