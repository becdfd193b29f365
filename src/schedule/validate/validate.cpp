#include "schedule/validate/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "schedule/data_check.hpp"
#include "schedule/event_graph.hpp"
#include "schedule/validate/validate_parts.hpp"

namespace tutti::schedule {

const char* to_string(Fault fault) {
  constexpr std::array<const char*, 10> names = {"program",     "place", "message", "queue",
                                                 "deadlock",    "race",  "early",   "unwritten",
                                                 "combination", "result"};
  return names[static_cast<std::size_t>(fault)];
}

Status Validation::status() const {
  if (ok()) return {};
  const Finding& first = findings.front();
  return {Code::invalid_argument, fmt::format("{}: {}", to_string(first.fault), first.text)};
}

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
  Segment last;  // neighbouring tasks often have the same parts
  for (GlobalTask t = 0; t < all.task_count(); ++t) {
    for (const Segment* segment : {&all.task(t).source, &all.task(t).target}) {
      if (segment->whole_blocks() || (segment->parts == last.parts && *segment == last)) continue;
      borders_.push_back(segment->begin());
      borders_.push_back(segment->end());
      last = *segment;
    }
  }
  std::sort(borders_.begin(), borders_.end());
  borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
}

std::uint32_t Grid::find(Fraction border) const {
  return static_cast<std::uint32_t>(std::lower_bound(borders_.begin(), borders_.end(), border) -
                                    borders_.begin());
}

Range Grid::cells_of(const Segment& segment) const {
  if (segment.whole_blocks()) return {0, cells()};
  return {find(segment.begin()), find(segment.end())};
}

namespace {

std::uint32_t rounds_of(const AllRanks& all) {
  std::uint32_t rounds = 0;
  for (GlobalTask t = 0; t < all.task_count(); ++t) {
    const Task& task = all.task(t);
    const bool moves = sends_message(task.kind) || task.kind == TaskKind::multicast ||
                       task.kind == TaskKind::write || task.kind == TaskKind::read;
    if (moves) rounds = std::max(rounds, task.round + 1u);
  }
  return rounds;
}

}  // namespace

Validation validate(std::span<const Schedule> schedules, const ValidateOptions& options) {
  Validation validation;
  if (schedules.empty()) {
    validation.findings.push_back(
        {Fault::program, kNoRank, kNoTask, "no schedules are given: give one a rank"});
    return validation;
  }
  const AllRanks all(schedules);
  Findings findings(all, validation.findings, std::max<std::size_t>(options.most_findings, 1));
  check_programs(all, options, findings);
  if (!findings.none()) return validation;
  const Grid grid(all);
  const Matching matching = match(all, grid, findings);
  if (!findings.none()) return validation;
  EventGraph graph(all, matching);
  if (!graph.run(findings)) return validation;
  graph.add_proofs_of_waits();
  const CellSpace cells(all, grid, options.in_place);
  check_accesses(all, cells, graph, matching, options, findings);
  if (!findings.none()) return validation;
  check_values(all, cells, graph, matching, options, findings, validation);
  validation.rounds = rounds_of(all);
  validation.longest_chain = graph.longest_chain();
  return validation;
}

}  // namespace tutti::schedule
