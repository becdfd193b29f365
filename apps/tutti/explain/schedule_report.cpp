#include "explain/schedule_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "base/error.hpp"
#include "collectives/choice.hpp"
#include "collectives/registry.hpp"
#include "explain/choice.hpp"
#include "explain/timeline.hpp"
#include "output_file.hpp"
#include "schedule/core_direct/core_direct.hpp"
#include "schedule/resources.hpp"
#include "schedule/text.hpp"
#include "schedule/validate/validate.hpp"
#include "size_text.hpp"

namespace tutti::app {
namespace {

using schedule::RankUse;
using schedule::Schedule;

constexpr std::uint32_t kMaxRanksToBuild = 1024;

schedule::Shape shape_of(const ScheduleQuestion& question) {
  return schedule::Shape::uniform(question.block_bytes,
                                  reduces(question.collective) ? element_bytes(question.type) : 1);
}

Result<std::vector<Schedule>> build(const ScheduleQuestion& question,
                                    const collectives::AlgorithmEntry& entry,
                                    const schedule::Parameters& parameters) {
  return collectives::build_all(
      {.collective = question.collective,
       .algorithm = std::string(entry.name),
       .ranks = question.ranks,
       .rank = Rank{0},
       .root = rank_of(has_root(question.collective) ? question.root : 0),
       .parameters = collectives::suited(entry, parameters, question.ranks, question.block_bytes)});
}

/// For each resource, such as connections or bytes sent, the most that any one rank uses.
Result<RankUse> most_used(const std::vector<Schedule>& schedules, const schedule::Shape& shape) {
  RankUse most;
  for (const Schedule& schedule : schedules) {
    const auto use = measure(schedule, shape);
    if (!use) return use.status();
    most.connections = std::max(most.connections, use->connections);
    most.queue_pairs = std::max(most.queue_pairs, use->queue_pairs);
    most.messages_sent = std::max(most.messages_sent, use->messages_sent);
    most.bytes_sent = std::max(most.bytes_sent, use->bytes_sent);
    most.bytes_received = std::max(most.bytes_received, use->bytes_received);
    most.bytes_reduced = std::max(most.bytes_reduced, use->bytes_reduced);
    most.scratch_bytes = std::max(most.scratch_bytes, use->scratch_bytes);
  }
  return most;
}

std::uint32_t rounds_of(const std::vector<Schedule>& schedules) {
  std::uint32_t rounds = 0;
  for (const Schedule& schedule : schedules) {
    for (const schedule::Task& task : schedule.tasks()) {
      const bool moves = sends_message(task.kind) || task.kind == schedule::TaskKind::multicast;
      if (moves) rounds = std::max(rounds, task.round + 1u);
    }
  }
  return rounds;
}

void print_table(const ScheduleQuestion& question, const collectives::Choice& chosen) {
  fmt::print("\n{:<20} {:>6} {:>5} {:>4} {:>9} {:>12} {:>12} {:>12}  {}\n", "algorithm", "rounds",
             "conn", "QPs", "messages", "sent", "received", "scratch", "");
  for (const auto& entry : collectives::algorithms_of(question.collective)) {
    const bool runs = entry.name == chosen.algorithm;
    const auto schedules =
        build(question, entry, runs ? chosen.parameters : schedule::Parameters());
    if (!schedules) {
      fmt::print("{:<20} {}\n", entry.name, schedules.status().message());
      continue;
    }
    const auto use = most_used(*schedules, shape_of(question));
    if (!use) continue;
    fmt::print("{:<20} {:>6} {:>5} {:>4} {:>9} {:>12} {:>12} {:>12}  {}{}\n", entry.name,
               rounds_of(*schedules), use->connections, use->queue_pairs, use->messages_sent,
               use->bytes_sent, use->bytes_received, use->scratch_bytes, entry.summary,
               runs ? "   <- runs" : "");
  }
  fmt::print(
      "Each figure is that of the rank with the most; sent and received are payload bytes, a "
      "multicast\ncounts once. QPs: queue pairs of a network interface that executes the list "
      "itself, three a\nconnection.\n");
}

Status print_check(const std::vector<Schedule>& schedules) {
  const schedule::Validation validation = validate(schedules);
  for (const schedule::Finding& finding : validation.findings)
    fmt::print("  {}: {}\n", to_string(finding.fault), finding.text);
  if (!validation.ok()) return validation.status();
  fmt::print(
      "\nproved for every size and order of arrival: each rank ends with what the collective "
      "promises,\nno task reads absent data or writes data in use, no rank waits "
      "forever\n(longest chain of messages: {}{})\n",
      validation.longest_chain,
      !reduces(schedules.front().purpose().collective) ? ""
      : validation.rank_ordered                        ? "; folded in rank order"
      : validation.same_association ? "; all ranks end with the same bits, not in rank order"
                                    : "; not in rank order");
  return {};
}

void print_tasks(const std::vector<Schedule>& schedules) {
  std::vector<Schedule> lowered;
  for (const Schedule& one : schedules) {
    auto low = schedule::lower_to_core_direct(one);
    if (!low) break;
    lowered.push_back(std::move(*low));
  }
  if (lowered.size() == schedules.size()) {
    fmt::print("\nOn an interface with wait and enable, one column a rank:\n{}",
               schedule::core_direct_table(lowered));
  }
  for (const Schedule& one : schedules) {
    fmt::print("\nrank {}\n", index(one.rank()));
    for (schedule::TaskIndex t = 0; t < one.tasks().size(); ++t)
      fmt::print("  {:>3}  {}\n", t, task_text(one, t));
  }
}

Status draw(const ScheduleQuestion& question, const std::vector<Schedule>& schedules) {
  LinkModel model;
  if (question.bits_per_second != 0)
    model.bits_per_second = static_cast<double>(question.bits_per_second);
  const auto timeline = forecast(schedules, shape_of(question), model);
  if (!timeline) return timeline.status();
  std::ofstream file(question.draw);
  file << to_svg(*timeline, schedules,
                 fmt::format("{} of {} among {} ranks by {}, links of {:g} Gbit/s: {:.3f} ms",
                             to_string(question.collective), size_text(question.block_bytes),
                             question.ranks, schedules.front().purpose().algorithm,
                             model.bits_per_second / 1e9, timeline->end_s * 1e3));
  file.close();
  if (!file) return cannot_write("--draw", question.draw);
  fmt::print("\ndrawn: {} ({:.3f} ms on links of {:g} Gbit/s with {:g} us a message)\n",
             question.draw, timeline->end_s * 1e3, model.bits_per_second / 1e9,
             model.latency_s * 1e6);
  return {};
}

}  // namespace

Status report_schedules(const ScheduleQuestion& question) {
  if (question.ranks > kMaxRanksToBuild) {
    return failure(Code::invalid_argument, "--ranks {} is too large to list tasks: use at most {}",
                   question.ranks, kMaxRanksToBuild);
  }
  auto chosen = choose(question.collective, question.ranks, question.block_bytes, question.where);
  if (!chosen) return chosen.status();
  if (!question.algorithm.empty()) {
    auto asked = collectives::parse_choice(question.collective, question.algorithm);
    if (!asked) return asked.status();
    chosen = std::move(asked);
  }
  fmt::print("{} of {} bytes among {} ranks: {}\nwhy: {}\n", to_string(question.collective),
             question.block_bytes, question.ranks, to_string(*chosen), chosen->reason);
  print_table(question, *chosen);
  const auto entry = collectives::find_algorithm(question.collective, chosen->algorithm);
  const auto schedules = build(question, **entry, chosen->parameters);
  if (!schedules) return schedules.status();
  if (question.tasks) print_tasks(*schedules);
  if (question.check) {
    if (Status status = print_check(*schedules); !status) return status;
  }
  return question.draw.empty() ? Status() : draw(question, *schedules);
}

}  // namespace tutti::app
