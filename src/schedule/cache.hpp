// Templates that a communicator has already built (C3): a call looks its schedule up and fills it.
//
// A schedule has no sizes in it, so few exist: one per collective, algorithm, root and parameters.
// The least recently used one goes when the cache is full; calls under way keep theirs alive. Not
// thread safe: its owner serialises.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace tutti::schedule {

/// What a template is found by; like Purpose, but looked up without allocating.
struct TemplateKey {
  Collective collective = Collective::barrier;
  std::string_view algorithm;
  std::uint32_t ranks = 1;
  Rank rank = rank_of(0);
  Rank root = rank_of(0);
  Parameters parameters;
};

class TemplateCache {
 public:
  using Build = std::function<Result<Schedule>(const Purpose&)>;

  /// `capacity`: schedules kept, at least 1. `build` makes one that is missing.
  TemplateCache(std::size_t capacity, Build build);

  /// The schedule of that key, built on first use. A failure to build is returned and not kept.
  Result<std::shared_ptr<const Schedule>> get(const TemplateKey& key);

  std::size_t size() const { return entries_.size(); }
  std::uint64_t hits() const { return hits_; }
  std::uint64_t builds() const { return builds_; }

 private:
  struct Cached {
    std::shared_ptr<const Schedule> schedule;
    std::uint64_t last_use;
  };

  std::shared_ptr<const Schedule> find(const TemplateKey& key);
  void make_room();

  std::size_t capacity_;
  Build build_;
  std::vector<Cached> entries_;
  std::uint64_t uses_ = 0;
  std::uint64_t hits_ = 0;
  std::uint64_t builds_ = 0;
};

}  // namespace tutti::schedule
