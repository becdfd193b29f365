#include "studies/smartnic/nic_model.hpp"

#include <algorithm>
#include <cmath>

namespace tutti::sim {
namespace {

/// State of the queueing model for the threads of one core: queue lengths and completion rate.
struct Core {
  double threads = 0;
  double issue_queue = 0;
  double memory_queue = 0;
  double rate = 0;
};

/// The time that one use of a resource takes if `threads` threads share the resource and its mean
/// queue length is `queue`.
double visit(double demand, double queue, double threads) {
  return threads <= 1 ? demand : demand * (1 + queue * (threads - 1) / threads);
}

}  // namespace

double DatapathModel::completions_per_second(std::uint32_t threads) const {
  const double issue = work_.instructions / processor_.issue_per_cycle / processor_.hertz;
  const double memory =
      work_.instructions * processor_.memory_share * processor_.memory_cycles / processor_.hertz;
  const double doorbell = 1 / processor_.doorbells_per_second;
  const double latency = std::max(work_.cycles / processor_.hertz - issue - memory - doorbell, 0.0);
  threads = std::min(threads, processor_.cores * processor_.threads_per_core);
  std::vector<Core> cores;
  for (std::uint32_t left = threads; left > 0;) {
    const std::uint32_t here = std::min(left, processor_.threads_per_core);
    cores.push_back({.threads = static_cast<double>(here)});
    left -= here;
  }
  double total = 0;
  double doorbell_queue = 0;
  for (int round = 0; round < 10'000; ++round) {
    const double at_doorbell = visit(doorbell, doorbell_queue, threads);
    const double before = total;
    total = 0;
    for (Core& core : cores) {
      const double at_issue = visit(issue, core.issue_queue, core.threads);
      const double at_memory = visit(memory, core.memory_queue, core.threads);
      core.rate = core.threads / (latency + at_issue + at_memory + at_doorbell);
      core.issue_queue = core.rate * at_issue;
      core.memory_queue = core.rate * at_memory;
      total += core.rate;
    }
    doorbell_queue = total * at_doorbell;
    if (std::abs(total - before) <= total * 1e-12) break;
  }
  return total;
}

Picoseconds DatapathModel::time_per_completion(std::uint32_t threads) const {
  const double rate = completions_per_second(threads);
  return {static_cast<std::int64_t>(threads / rate * 1e12)};
}

std::uint32_t DatapathModel::threads_for(double bits_per_second, std::uint64_t bytes) const {
  const std::uint32_t most = processor_.cores * processor_.threads_per_core;
  for (std::uint32_t threads = 1; threads <= most; threads *= 2) {
    if (bytes_per_second(threads, bytes) * 8 >= bits_per_second) return threads;
  }
  return 0;
}

Picoseconds NicModel::fetched(Picoseconds posted, std::uint64_t bytes) {
  Picoseconds ready = posted + settings_.latency;  // time for the doorbell to reach the interface
  if (!settings_.inline_descriptor) {
    ready += settings_.latency * 2 + speed_.time_of(settings_.descriptor_bytes);
  }
  // The interface sends its read requests at once and receives the answers in order, so only the
  // data of the answers occupies the bus.
  const Picoseconds data = std::max(ready + settings_.latency * 2, reads_free_);
  reads_free_ = data + speed_.time_of(bytes);
  return reads_free_;
}

Picoseconds NicModel::delivered(Picoseconds arrived, std::uint64_t bytes, bool completes) {
  const bool bus_completion = completes && !settings_.completions_stay;
  const std::uint64_t written = bytes + (bus_completion ? settings_.completion_bytes : 0);
  writes_free_ = std::max(arrived, writes_free_) + speed_.time_of(written);
  const Picoseconds visible = writes_free_ + settings_.latency;
  return settings_.completions_stay ? arrived + settings_.local_latency : visible;
}

}  // namespace tutti::sim
