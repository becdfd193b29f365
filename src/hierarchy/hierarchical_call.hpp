// A hierarchical call under way at one rank: the stages of its plan, and which of them have begun
// and ended. Each side communicator begins its stages in the order of the plan.
#pragma once

#include <cstddef>
#include <vector>

#include "hierarchy/hierarchy_plan.hpp"
#include "tutti/status.hpp"

namespace tutti::hierarchy {

class HierarchicalCall {
 public:
  explicit HierarchicalCall(std::vector<HierarchyStage> stages);

  std::size_t stages() const { return stages_.size(); }
  const HierarchyStage& stage(std::size_t number) const { return stages_[number].plan; }
  /// The index of the next stage that may begin; HierarchyStage::kNone if none may begin now. No
  /// stage begins after a failure.
  std::size_t ready() const;
  /// Records that the stage with index `number` begins, or that it has ended with `status`.
  void begin(std::size_t number);
  void end(std::size_t number, const Status& status);
  std::size_t ended() const { return ended_; }
  /// True if no stage is under way and no further stage begins.
  bool over() const { return ended_ == begun_ && (begun_ == stages_.size() || !status_.ok()); }
  /// The status of the first stage that failed; ok if none has failed.
  const Status& status() const { return status_; }

 private:
  struct Stage {
    HierarchyStage plan;
    bool begun = false;
    bool ended = false;
  };

  std::vector<Stage> stages_;
  std::size_t begun_ = 0;
  std::size_t ended_ = 0;
  Status status_;
};

}  // namespace tutti::hierarchy
