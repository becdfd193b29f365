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
        {Fault::program, kNoRank, kNoTask, "no schedules are given: give one for each rank"});
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
