#include "schedule/cache.hpp"

#include <algorithm>

namespace tutti::schedule {

namespace {

bool matches(const Purpose& purpose, const TemplateKey& key) {
  return purpose.collective == key.collective && purpose.rank == key.rank &&
         purpose.ranks == key.ranks && purpose.root == key.root &&
         purpose.parameters == key.parameters && purpose.algorithm == key.algorithm;
}

}  // namespace

TemplateCache::TemplateCache(std::size_t capacity, Build build)
    : capacity_(std::max<std::size_t>(capacity, 1)), build_(std::move(build)) {
  entries_.reserve(capacity_);
}

std::shared_ptr<const Schedule> TemplateCache::find(const TemplateKey& key) {
  for (Cached& entry : entries_) {
    if (!matches(entry.schedule->purpose(), key)) continue;
    entry.last_use = uses_;
    return entry.schedule;
  }
  return nullptr;
}

void TemplateCache::make_room() {
  if (entries_.size() < capacity_) return;
  const auto oldest =
      std::min_element(entries_.begin(), entries_.end(),
                       [](const Cached& a, const Cached& b) { return a.last_use < b.last_use; });
  entries_.erase(oldest);
}

Result<std::shared_ptr<const Schedule>> TemplateCache::get(const TemplateKey& key) {
  ++uses_;
  if (std::shared_ptr<const Schedule> found = find(key)) return found;
  Result<Schedule> built = build_(
      {key.collective, std::string(key.algorithm), key.ranks, key.rank, key.root, key.parameters});
  if (!built) return built.status();
  ++builds_;
  make_room();
  entries_.push_back({std::make_shared<const Schedule>(std::move(*built)), uses_});
  return entries_.back().schedule;
}

}  // namespace tutti::schedule
