#include "schedule/validate/validate_parts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::schedule {

AllRanks::AllRanks(std::span<const Schedule> schedules) : schedules_(schedules), bases_{0} {
  for (std::uint32_t r = 0; r < schedules.size(); ++r) {
    const auto tasks = static_cast<std::uint32_t>(schedules[r].tasks().size());
    bases_.push_back(bases_.back() + tasks);
    ranks_.insert(ranks_.end(), tasks, r);
  }
}

void Findings::add(Fault fault, GlobalTask task, const std::string& text) {
  if (full()) return;
  out_.push_back({fault, rank_of(all_.rank_of_task(task)), all_.local(task),
                  fmt::format("{}: {}", all_.describe(task), text)});
}

void Findings::add_at(Fault fault, std::uint32_t rank, const std::string& text) {
  if (full()) return;
  out_.push_back({fault, rank_of(rank), kNoTask, fmt::format("rank {}: {}", rank, text)});
}

Grid::Grid(const AllRanks& all) : borders_{{0, 1}, {1, 1}} {
  // The slice whose borders were added last. The borders of an equal slice need not be added again.
  BufferSlice last;
  for (GlobalTask t = 0; t < all.task_count(); ++t) {
    for (const BufferSlice* slice : {&all.task(t).source, &all.task(t).target}) {
      if (slice->whole_blocks() || (slice->parts == last.parts && *slice == last)) continue;
      borders_.push_back(slice->begin());
      borders_.push_back(slice->end());
      last = *slice;
    }
  }
  std::sort(borders_.begin(), borders_.end());
  borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
}

std::uint32_t Grid::find(Fraction border) const {
  return static_cast<std::uint32_t>(std::lower_bound(borders_.begin(), borders_.end(), border) -
                                    borders_.begin());
}

Range Grid::cells_of(const BufferSlice& slice) const {
  if (slice.whole_blocks()) return {0, cells()};
  return {find(slice.begin()), find(slice.end())};
}

}  // namespace tutti::schedule
