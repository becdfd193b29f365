#include "sim/fault/fault_device.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "device/forwarding_endpoint.hpp"
#include "sim/fault/fault_queue_pair.hpp"

namespace tutti::device::fault {

namespace {

class FaultEndpoint final : public ForwardingEndpoint {
 public:
  FaultEndpoint(std::unique_ptr<Endpoint> inner, const EndpointOptions& options,
                const FaultPlan& plan, std::shared_ptr<InjectedCounters> counters)
      : ForwardingEndpoint(std::move(inner)), context_(std::make_unique<FaultContext>()) {
    context_->plan = plan;
    context_->rank = options.rank;
    context_->counters = std::move(counters);
    for (std::uint32_t s = 0; s < subgroup_count(); ++s) {
      pairs_.push_back(std::make_unique<FaultQueuePair>(this->inner().multicast(s), *context_));
    }
    probes_heard_.resize(options.size);
    capabilities_ = ForwardingEndpoint::capabilities();
    capabilities_.bits &= ~static_cast<std::uint32_t>(Capability::every_chunk_arrives);
  }

  const Capabilities& capabilities() const override { return capabilities_; }

  MulticastQueuePair& multicast(std::uint32_t subgroup) override { return *pairs_[subgroup]; }
  Status use_receive_workers(bool on) override {
    Status status = ForwardingEndpoint::use_receive_workers(on);
    if (status.ok()) apart_ = on;
    return status;
  }
  std::size_t poll(Instant now, std::span<Completion> completions) override {
    note(now);
    return heard(completions.first(ForwardingEndpoint::poll(now, completions)));
  }
  std::size_t poll_posted(Instant now, std::span<Completion> completions) override {
    note(now);
    return heard(completions.first(ForwardingEndpoint::poll_posted(now, completions)));
  }
  Instant next_deadline() const override;

 private:
  void note(Instant now) { context_->now_ns.store(now.nanoseconds, std::memory_order_relaxed); }
  std::size_t heard(std::span<Completion> completions);
  bool probe_lost(const Completion& completion);

  Capabilities capabilities_;
  std::unique_ptr<FaultContext> context_;
  std::vector<std::unique_ptr<FaultQueuePair>> pairs_;
  std::vector<std::uint32_t> probes_heard_;
  bool apart_ = false;
};

/// Removes the completions of probes that the fault plan drops, and returns the number of
/// completions that remain.
std::size_t FaultEndpoint::heard(std::span<Completion> completions) {
  const auto end = std::remove_if(completions.begin(), completions.end(),
                                  [this](const Completion& one) { return probe_lost(one); });
  return static_cast<std::size_t>(end - completions.begin());
}

bool FaultEndpoint::probe_lost(const Completion& completion) {
  if (completion.opcode != Opcode::probe || index(completion.peer) >= probes_heard_.size()) {
    return false;
  }
  const FaultRule* rule =
      decide(context_->plan, {.place = FaultSite::receiver,
                              .packet = Packet::probe,
                              .source = completion.peer,
                              .receiver = context_->rank,
                              .occurrence = probes_heard_[index(completion.peer)]++});
  if (rule == nullptr) return false;
  context_->counters->add(&Injected::probes_dropped);
  return true;
}

Instant FaultEndpoint::next_deadline() const {
  Instant deadline = ForwardingEndpoint::next_deadline();
  if (apart_) return deadline;
  for (const auto& pair : pairs_) deadline = std::min(deadline, pair->next_due());
  return deadline;
}

}  // namespace

std::string FaultDevice::name() const {
  return inner_ ? inner_->name() + " with faults" : "faults without a device";
}

Result<std::unique_ptr<Endpoint>> FaultDevice::open(const EndpointOptions& options) {
  if (!inner_)
    return failure(Code::invalid_argument,
                   "the fault decorator has no device: call decorate() first");
  for (const FaultRule& rule : plan_.rules) {
    if (Status status = check(rule); !status) return status;
  }
  auto inner = inner_->open(options);
  if (!inner) return inner.status();
  return std::unique_ptr<Endpoint>(
      std::make_unique<FaultEndpoint>(std::move(*inner), options, plan_, counters_));
}

}  // namespace tutti::device::fault
