#include "hierarchy/hierarchical_call.hpp"

#include <optional>
#include <utility>

namespace tutti::hierarchy {

HierarchicalCall::HierarchicalCall(std::vector<HierarchyStage> stages) {
  for (HierarchyStage& stage : stages) stages_.push_back({.plan = std::move(stage)});
}

std::size_t HierarchicalCall::ready() const {
  constexpr std::size_t kNone = HierarchyStage::kNone;
  if (!status_.ok()) return kNone;
  std::optional<HierarchySide> held;  // side communicator whose next stage cannot begin yet
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    if (stage.begun || stage.plan.side == held) continue;
    if (stage.plan.after == kNone || stages_[stage.plan.after].ended) return i;
    if (held) break;
    held = stage.plan.side;
  }
  return kNone;
}

void HierarchicalCall::begin(std::size_t number) {
  stages_[number].begun = true;
  ++begun_;
}

void HierarchicalCall::end(std::size_t number, const Status& status) {
  stages_[number].ended = true;
  ++ended_;
  if (status_.ok()) status_ = status;
}

}  // namespace tutti::hierarchy
