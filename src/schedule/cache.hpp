// Caches the templates that a communicator has built ([Inozemtsev12] 4.1).
//
// A schedule contains no sizes, so a communicator needs only one template for each collective,
// algorithm, root and set of parameters. A full cache drops the least recently used template; the
// dropped template lives until the calls that use it have ended. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace tutti::schedule {

/// The key of a template. Unlike Purpose, a key owns no string, so a lookup allocates no memory.
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

  /// Makes a cache for up to `capacity` templates; a capacity of 0 counts as 1. The cache calls
  /// `build` for each template that it lacks.
  TemplateCache(std::size_t capacity, Build build);

  /// Returns the template for `key`, and builds it if it is missing. If the build fails, its error
  /// is returned and not cached.
  Result<std::shared_ptr<const Schedule>> get(const TemplateKey& key);

  std::size_t size() const { return entries_.size(); }
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
  std::uint64_t builds_ = 0;
};

}  // namespace tutti::schedule
