// Messages from rank to rank, and the monitored barrier, which uses messages to find absent ranks.
#include <utility>

#include "backend.hpp"
#include "monitored_barrier.hpp"

namespace tutti::torch_backend {
namespace {

using c10d::OpType;

std::uint64_t tag_of(const char* name, int tag) {
  if (tag < 0) raise(name, ": the tag is ", tag, ": use 0 or more");
  return static_cast<std::uint64_t>(tag);
}

}  // namespace

WorkPointer TuttiBackend::send(Tensors& tensors, int to, int tag) {
  const char* const name = "send";
  check_rank(name, "the receiver", to);
  const auto operation = prepare(OpType::SEND, name, Terms(c10d::kUnsetTimeout));
  const Bytes bytes = operation->staging.read(only_tensor(name, tensors));
  operation->plan.calls.push_back(
      Call::send(bytes, static_cast<std::uint32_t>(to), tag_of(name, tag)));
  operation->plan.detail = c10::str(" to rank ", to, " with tag ", tag);
  return issue(operation);
}

WorkPointer TuttiBackend::recv(Tensors& tensors, int from, int tag) {
  const char* const name = "recv";
  check_rank(name, "the sender", from);
  const auto operation = prepare(OpType::RECV, name, Terms(c10d::kUnsetTimeout));
  const Bytes bytes = operation->staging.update(only_tensor(name, tensors));
  operation->plan.calls.push_back(
      Call::receive(bytes, static_cast<std::uint32_t>(from), tag_of(name, tag)));
  operation->plan.detail = c10::str(" from rank ", from, " with tag ", tag);
  operation->plan.results = tensors;
  return issue(operation);
}

WorkPointer TuttiBackend::recvAnysource(Tensors& tensors, int tag) {
  const char* const name = "recv";
  const auto operation = prepare(OpType::RECVANYSOURCE, name, Terms(c10d::kUnsetTimeout));
  const Bytes bytes = operation->staging.update(only_tensor(name, tensors));
  operation->plan.calls.push_back(Call::receive(bytes, TUTTI_ANY_RANK, tag_of(name, tag)));
  operation->plan.detail = c10::str(" from any rank with tag ", tag);
  operation->plan.results = tensors;
  return issue(operation);
}

void TuttiBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  // A timeout of 0 makes monitoredBarrier fail at once. In all other calls it selects the timeout
  // of the group.
  if (options.timeout.count() == 0)
    std::rethrow_exception(backend_error(
        c10::str("Rank ", group_->rank,
                 " timed out in monitoredBarrier after 0 ms: pass a longer timeout")));
  const auto operation = prepare(OpType::BARRIER, "monitored_barrier", Terms(options.timeout));
  const MonitoredBarrier barrier(group_, ++monitored_barriers_, operation->plan.timeout,
                                 wait_for_all);
  operation->plan.steps = [barrier](tutti_comm_t* comm) { barrier.run(comm); };
  const std::chrono::milliseconds creation = operation->plan.timeout;
  // The barrier's own timeout begins when the communicator has been created. The creation has a
  // timeout too, and the operation may take as long as both together.
  operation->plan.timeout = creation + barrier.longest();
  issue(operation)->wait();
}

}  // namespace tutti::torch_backend
