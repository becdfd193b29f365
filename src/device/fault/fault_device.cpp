#include "device/fault/fault_device.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "device/fault/fault_queue_pair.hpp"

namespace tutti::device::fault {

namespace {

class FaultEndpoint final : public Endpoint {
 public:
  FaultEndpoint(std::unique_ptr<Endpoint> inner, const EndpointOptions& options,
                const FaultPlan& plan, std::shared_ptr<InjectedCounters> counters)
      : inner_(std::move(inner)), context_(std::make_unique<FaultContext>()) {
    context_->plan = plan;
    context_->rank = options.rank;
    context_->counters = std::move(counters);
    for (std::uint32_t s = 0; s < inner_->subgroup_count(); ++s) {
      pairs_.push_back(std::make_unique<FaultQueuePair>(inner_->multicast(s), *context_));
    }
    probes_heard_.resize(options.size);
  }

  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  std::string description() const override { return inner_->description(); }
  std::vector<std::byte> address() const override { return inner_->address(); }
  Status connect(std::span<const std::vector<std::byte>> addresses) override {
    return inner_->connect(addresses);
  }
  std::uint32_t subgroup_count() const override { return inner_->subgroup_count(); }
  MulticastQueuePair& multicast(std::uint32_t subgroup) override { return *pairs_[subgroup]; }
  Status receive_apart(bool on) override {
    Status status = inner_->receive_apart(on);
    if (status.ok()) apart_ = on;
    return status;
  }
  Result<MemoryKey> register_memory(std::span<std::byte> memory) override {
    return inner_->register_memory(memory);
  }
  void deregister_memory(MemoryKey key) override { inner_->deregister_memory(key); }
  std::size_t max_message_bytes() const override { return inner_->max_message_bytes(); }
  Status post(Instant now, const WorkRequest& request) override {
    return inner_->post(now, request);
  }
  std::size_t poll(Instant now, std::span<Completion> completions) override;
  void watch(Rank peer, bool on) override { inner_->watch(peer, on); }
  void abandon() override { inner_->abandon(); }
  bool quiet() const override { return inner_->quiet(); }
  Instant next_deadline() const override;
  int wait_descriptor() const override { return inner_->wait_descriptor(); }
  bool prepare_wait() override { return inner_->prepare_wait(); }
  void notify_when_sendable(bool on) override { inner_->notify_when_sendable(on); }
  EndpointCounters counters() const override { return inner_->counters(); }

 private:
  bool probe_lost(const Completion& completion);

  std::unique_ptr<Endpoint> inner_;
  std::unique_ptr<FaultContext> context_;
  std::vector<std::unique_ptr<FaultQueuePair>> pairs_;
  std::vector<std::uint32_t> probes_heard_;
  bool apart_ = false;
};

std::size_t FaultEndpoint::poll(Instant now, std::span<Completion> completions) {
  context_->now_ns.store(now.nanoseconds, std::memory_order_relaxed);
  const std::size_t count = inner_->poll(now, completions);
  const auto end =
      std::remove_if(completions.begin(), completions.begin() + static_cast<std::ptrdiff_t>(count),
                     [this](const Completion& one) { return probe_lost(one); });
  return static_cast<std::size_t>(end - completions.begin());
}

bool FaultEndpoint::probe_lost(const Completion& completion) {
  if (completion.opcode != Opcode::probe || index(completion.peer) >= probes_heard_.size()) {
    return false;
  }
  const FaultRule* rule =
      decide(context_->plan, {.place = Place::receiver,
                              .packet = Packet::probe,
                              .source = completion.peer,
                              .receiver = context_->rank,
                              .occurrence = probes_heard_[index(completion.peer)]++});
  if (rule == nullptr) return false;
  context_->counters->add(&Injected::probes_dropped);
  return true;
}

Instant FaultEndpoint::next_deadline() const {
  Instant deadline = inner_->next_deadline();
  if (apart_) return deadline;
  for (const auto& pair : pairs_) deadline = std::min(deadline, pair->next_due());
  return deadline;
}

}  // namespace

std::string FaultDevice::name() const {
  return inner_ ? inner_->name() + " with faults" : "faults without a device";
}

Result<std::unique_ptr<Endpoint>> FaultDevice::open(const EndpointOptions& options) {
  if (!inner_) return failure(Code::invalid_argument, "the fault decorator decorates no device");
  for (const FaultRule& rule : plan_.rules) {
    if (Status status = check(rule); !status) return status;
  }
  auto inner = inner_->open(options);
  if (!inner) return inner.status();
  return std::unique_ptr<Endpoint>(
      std::make_unique<FaultEndpoint>(std::move(*inner), options, plan_, counters_));
}

}  // namespace tutti::device::fault
