// Prints lowered schedules like tables I and II of [Inozemtsev12].
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/core_direct/core_direct.hpp"
#include "schedule/text.hpp"

namespace tutti::schedule {

namespace {

/// The printed lines of one rank, grouped by round.
class Column {
 public:
  Column(const Schedule& schedule, bool all_tasks) : schedule_(schedule), all_(all_tasks) {
    for (const Task& task : schedule.tasks()) {
      if (lines_.size() <= task.round) lines_.resize(task.round + 1u);
      const std::optional<Line> line = line_of(task);
      if (!line) continue;
      width_ = std::max(width_, line->text.size());
      lines_[task.round].push_back(*line);
    }
    for (std::vector<Line>& round : lines_) {
      std::stable_sort(round.begin(), round.end(),
                       [](const Line& a, const Line& b) { return a.order < b.order; });
    }
  }

  std::size_t rounds() const { return lines_.size(); }
  std::size_t height(std::size_t round) const {
    return round < lines_.size() ? lines_[round].size() : 0;
  }
  std::string line(std::size_t round, std::size_t at) const {
    return at < height(round) ? lines_[round][at].text : std::string();
  }
  std::size_t width() const { return width_; }

 private:
  /// One printed line. `order` sorts the lines of a round by kind: received CTS, sent CTS, waits
  /// for CTS, receives, sends, other waits.
  struct Line {
    int order;
    std::string text;
  };

  std::optional<Line> line_of(const Task& task) const {
    const Queue& queue = schedule_.queues()[task.queue];
    const bool cts = queue.channel == Channel::cts;
    const std::uint32_t peer = index(task.peer);
    switch (task.kind) {
      case TaskKind::recv:
        return cts ? Line{0, fmt::format("recv CTS from {}", peer)}
                   : Line{3, fmt::format("recv from {}", peer)};
      case TaskKind::send:
        return Line{4, fmt::format("send to {}", peer)};
      case TaskKind::signal:
        if (!cts) return Line{4, fmt::format("signal to {}", peer)};
        return shown(1, fmt::format("send CTS to {}", peer));
      case TaskKind::wait:
        return wait_line(task);
      case TaskKind::enable:
        return shown(enable_order(task), enable_text(task));
      default:
        return shown(7, fmt::format("host {} {} -> {}", to_string(task.kind),
                                    to_string(task.source), to_string(task.target)));
    }
  }

  std::optional<Line> shown(int order, std::string text) const {
    if (!all_) return std::nullopt;
    return Line{order, std::move(text)};
  }

  std::optional<Line> wait_line(const Task& task) const {
    for (const Queue& queue : schedule_.queues()) {
      if (queue.completions != task.object) continue;
      const std::uint32_t peer = index(queue.peer);
      if (queue.kind == QueueKind::receive && queue.channel == Channel::cts)
        return Line{2, fmt::format("wait ({} CTS CQ) from {}", task.count, peer)};
      if (queue.kind == QueueKind::receive)
        return Line{6, fmt::format("wait ({} recv CQ) from {}", task.count, peer)};
      const char* cts = queue.channel == Channel::cts ? "CTS " : "";
      if (queue.kind == QueueKind::send)
        return shown(6, fmt::format("wait ({} {}send CQ) to {}", task.count, cts, peer));
      return shown(6, fmt::format("wait ({} host CQ)", task.count));
    }
    return std::nullopt;
  }

  int enable_order(const Task& task) const {
    return schedule_.queues()[task.object].kind == QueueKind::host ? 7 : 5;
  }

  std::string enable_text(const Task& task) const {
    const Queue& queue = schedule_.queues()[task.object];
    const char* cts = queue.channel == Channel::cts ? "CTS " : "";
    if (queue.kind == QueueKind::send)
      return fmt::format("send_enable {}{} to {}", cts, task.count, index(queue.peer));
    if (queue.kind == QueueKind::receive)
      return fmt::format("recv_enable {}{} from {}", cts, task.count, index(queue.peer));
    return fmt::format("host_enable {}", task.count);
  }

  const Schedule& schedule_;
  bool all_;
  std::vector<std::vector<Line>> lines_;
  std::size_t width_ = 4;
};

void append_row(std::string& table, const std::string& label, std::span<const Column> columns,
                const auto& cell) {
  std::string row = fmt::format("{:<8}", label);
  for (const Column& column : columns) row += fmt::format("  {:<{}}", cell(column), column.width());
  row.erase(row.find_last_not_of(' ') + 1);
  table += row + "\n";
}

}  // namespace

std::string core_direct_table(std::span<const Schedule> lowered, bool all_tasks) {
  std::vector<Column> columns;
  std::size_t rounds = 0;
  for (const Schedule& schedule : lowered) {
    columns.emplace_back(schedule, all_tasks);
    rounds = std::max(rounds, columns.back().rounds());
  }
  std::string table;
  std::size_t next = 0;
  append_row(table, "Rank", columns,
             [&](const Column&) { return std::to_string(index(lowered[next++].rank())); });
  for (std::size_t round = 0; round < rounds; ++round) {
    std::size_t height = 0;
    for (const Column& column : columns) height = std::max(height, column.height(round));
    for (std::size_t at = 0; at < height; ++at)
      append_row(table, at == 0 ? fmt::format("Step {}", round) : std::string(), columns,
                 [&](const Column& column) { return column.line(round, at); });
  }
  return table;
}

}  // namespace tutti::schedule
