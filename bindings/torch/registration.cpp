// The operators torch.ops.tutti_collectives.*, by which Python makes a backend without pybind11.
#include <c10/util/Exception.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "backend.hpp"
#include "completion_pool.hpp"
#include "live_groups.hpp"

namespace tutti::torch_backend {
namespace {

/// _adapter.py finds this text in the library file before loading the file. An adapter that was
/// made for another minor version of torch would end the process with SIGSEGV.
[[gnu::used]] constexpr char kMadeFor[] = "tutti adapter for torch " TORCH_VERSION;

using c10d::ProcessGroup;
using ProcessGroupPointer = c10::intrusive_ptr<ProcessGroup>;

#if TUTTI_TORCH_FROM(2, 9)
c10::intrusive_ptr<c10d::Store> store_of(const ProcessGroup& group) { return group.getStore(); }
#else
/// In torch 2.8 the member store_ of ProcessGroup is protected, so only a derived class can read
/// it.
struct StoreReader : ProcessGroup {
  static c10::intrusive_ptr<c10d::Store> read(const ProcessGroup& group) {
    return group.*(&StoreReader::store_);
  }
};
c10::intrusive_ptr<c10d::Store> store_of(const ProcessGroup& group) {
  return StoreReader::read(group);
}
#endif

/// Returns a group that contains the new backend. `carrier` is a group of torch from which the new
/// group takes the store, the rank and the size.
ProcessGroupPointer make_backend(const ProcessGroupPointer& carrier, std::int64_t timeout_ms,
                                 const std::string& name, const std::string& key_prefix,
                                 const std::vector<std::int64_t>& global_ranks,
                                 const c10::Dict<std::string, std::string>& options) {
  if (timeout_ms <= 0)
    raise("the timeout of group '", name, "' is ", timeout_ms, " ms: use 1 ms or more");
  std::map<std::string, std::string> values;
  for (const auto& entry : options) values.emplace(entry.key(), entry.value());
  auto group = std::make_shared<Group>();
  group->rank = carrier->getRank();
  group->size = carrier->getSize();
  group->name = name;
  group->key_prefix = key_prefix;
  group->global_ranks = global_ranks;
  group->options = Options(std::move(values));
  group->timeout_ms = timeout_ms;
  const auto backend = c10::make_intrusive<TuttiBackend>(group, store_of(*carrier));
  auto result = c10::make_intrusive<ProcessGroup>(group->rank, group->size);
  result->setBackend(c10::DeviceType::CPU, ProcessGroup::BackendType::CUSTOM,
                     c10::intrusive_ptr<c10d::Backend>(backend));
  return result;
}

/// Counters of the newest group of this name.
std::vector<std::tuple<std::string, std::int64_t>> counters(const std::string& name) {
  const auto group = LiveGroups::instance().find(name);
  if (!group)
    raise("there is no group '", name, "' of backend tutti: pass a group that has not ended");
  std::vector<std::tuple<std::string, std::int64_t>> all;
  for (const auto& [counter, value] : group->counters())
    all.emplace_back(counter, static_cast<std::int64_t>(value));
  return all;
}

/// Ends all groups and the callbacks of futures. Python calls this function before the interpreter
/// ends.
void end_process(std::int64_t patience_ms) {
  LiveGroups::instance().shut_down();
  CompletionPool::instance().stop(std::chrono::milliseconds(patience_ms));
}

std::string version() { return tutti_version(); }

}  // namespace

TORCH_LIBRARY(tutti_collectives, library) {
  library.def("make_backend", make_backend);
  library.def("counters", counters);
  library.def("end_process", end_process);
  library.def("version", version);
}

}  // namespace tutti::torch_backend
