#include "explain/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <tuple>

#include "base/error.hpp"
#include "markup.hpp"
#include "schedule/task_board.hpp"
#include "schedule/text.hpp"

namespace tutti::app {
namespace {

using schedule::Schedule;
using schedule::Task;
using schedule::TaskIndex;
using schedule::TaskKind;

/// Simulates the tasks of all ranks in virtual time; a LinkModel gives the durations.
class Forecast {
 public:
  Forecast(std::span<const Schedule> schedules, const LinkModel& model)
      : schedules_(schedules),
        model_(model),
        boards_(schedules.size()),
        filled_(schedules.size()),
        sends_free_s_(schedules.size()),
        receives_free_s_(schedules.size()),
        processor_free_s_(schedules.size()) {}

  Result<Timeline> run(const schedule::Shape& shape) {
    for (std::uint32_t r = 0; r < schedules_.size(); ++r) {
      filled_[r].resize(schedules_[r].tasks().size());
      if (Status status = fill(schedules_[r], shape, filled_[r]); !status) return status;
      boards_[r].reset(schedules_[r]);
    }
    for (std::uint32_t r = 0; r < schedules_.size(); ++r) issue_ready(r);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_s_ = event.at_s;
      boards_[event.rank].complete(event.task);
      issue_ready(event.rank);
    }
    for (std::uint32_t r = 0; r < schedules_.size(); ++r) {
      if (!boards_[r].done())
        return failure(
            Code::internal,
            "the schedule of rank {} has tasks that never end: use --check to see the reason", r);
    }
    timeline_.end_s = now_s_;
    return std::move(timeline_);
  }

 private:
  // The values that identify a message: source rank, target rank and match slot.
  using Message = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  struct Event {
    double at_s;
    std::uint64_t order;
    std::uint32_t rank;
    TaskIndex task;
    bool operator<(const Event& other) const {
      return std::tie(at_s, order) > std::tie(other.at_s, other.order);
    }
  };

  double link_s(std::uint64_t bytes) const {
    return static_cast<double>(bytes) * 8 / model_.bits_per_second;
  }
  void end_at(std::uint32_t rank, TaskIndex task, double begin_s, double end_s) {
    timeline_.bars.push_back({rank, task, begin_s, end_s});
    events_.push({end_s, order_++, rank, task});
  }
  void issue_ready(std::uint32_t rank) {
    for (TaskIndex task = 0; boards_[rank].next(task);) issue(rank, task);
  }
  void issue(std::uint32_t rank, TaskIndex at) {
    const Task& task = schedules_[rank].tasks()[at];
    const std::uint64_t bytes =
        std::max(filled_[rank][at].source.size_bytes, filled_[rank][at].target.size_bytes);
    switch (task.kind) {
      case TaskKind::send:
      case TaskKind::signal:
        return send(rank, at, bytes);
      case TaskKind::recv:
        return wait_for(rank, at, {{index(task.peer), rank, task.slot}});
      case TaskKind::wait_keys: {
        std::vector<Message> messages;
        for (const schedule::Key& key : schedules_[rank].keys(at))
          messages.push_back({index(key.source), rank, key.slot});
        return wait_for(rank, at, messages);
      }
      case TaskKind::multicast:
        return multicast(rank, at, bytes);
      case TaskKind::collect:
        return collect(rank, at);
      default:
        return compute(rank, at, bytes);
    }
  }
  void send(std::uint32_t rank, TaskIndex at, std::uint64_t bytes) {
    const Task& task = schedules_[rank].tasks()[at];
    const std::uint32_t peer = index(task.peer);
    const double begin = std::max(now_s_, sends_free_s_[rank]);
    sends_free_s_[rank] = begin + link_s(bytes);
    end_at(rank, at, begin, sends_free_s_[rank]);
    const double first = std::max(begin + model_.latency_s, receives_free_s_[peer]);
    receives_free_s_[peer] = first + link_s(bytes);
    arrive({rank, peer, task.slot}, first, receives_free_s_[peer]);
  }
  void arrive(const Message& message, double begin_s, double end_s) {
    arrivals_[message] = {begin_s, end_s};
    const auto waiting = waiting_.find(message);
    if (waiting == waiting_.end()) return;
    const auto [rank, task] = waiting->second;
    waiting_.erase(waiting);
    if (--missing_[{rank, task}] == 0) receive(rank, task);
  }
  void wait_for(std::uint32_t rank, TaskIndex at, const std::vector<Message>& messages) {
    posted_[{rank, at}] = {now_s_, messages};
    std::uint32_t& missing = missing_[{rank, at}];
    for (const Message& message : messages) {
      if (arrivals_.count(message) != 0) continue;
      waiting_[message] = {rank, at};
      ++missing;
    }
    if (missing == 0) receive(rank, at);
  }
  void receive(std::uint32_t rank, TaskIndex at) {
    const auto& [posted, messages] = posted_[{rank, at}];
    double begin = posted;
    double end = posted;
    for (const Message& message : messages) {
      begin = std::max(posted, arrivals_[message].first);
      end = std::max(end, arrivals_[message].second);
    }
    end_at(rank, at, begin, end);
  }
  void multicast(std::uint32_t rank, TaskIndex at, std::uint64_t bytes) {
    const double begin = std::max(now_s_, sends_free_s_[rank]);
    sends_free_s_[rank] = begin + link_s(bytes);
    end_at(rank, at, begin, sends_free_s_[rank]);
    for (std::uint32_t r = 0; r < schedules_.size(); ++r) {
      if (r == rank) continue;
      const double first = std::max(begin + model_.latency_s, receives_free_s_[r]);
      receives_free_s_[r] = first + link_s(bytes);
      collected_bytes_[r] += bytes;
      finish_collects(r);
    }
  }
  // A collect task waits for multicast data. All collect tasks of a rank end when the last
  // multicast byte for this rank has arrived.
  void collect(std::uint32_t rank, TaskIndex at) {
    collects_[rank].push_back({at, now_s_});
    awaited_bytes_[rank] += filled_[rank][at].target.size_bytes;
    finish_collects(rank);
  }
  void finish_collects(std::uint32_t rank) {
    if (collects_[rank].empty() || collected_bytes_[rank] < awaited_bytes_[rank]) return;
    for (const auto& [task, posted] : collects_[rank])
      end_at(rank, task, posted, std::max(posted, receives_free_s_[rank]));
    collects_[rank].clear();
  }
  void compute(std::uint32_t rank, TaskIndex at, std::uint64_t bytes) {
    const double begin = std::max(now_s_, processor_free_s_[rank]);
    processor_free_s_[rank] = begin + static_cast<double>(bytes) / model_.memory_bytes_per_s;
    end_at(rank, at, begin, processor_free_s_[rank]);
  }

  std::span<const Schedule> schedules_;
  LinkModel model_;
  std::vector<schedule::TaskBoard> boards_;
  std::vector<std::vector<schedule::FilledTask>> filled_;
  std::vector<double> sends_free_s_;
  std::vector<double> receives_free_s_;
  std::vector<double> processor_free_s_;
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  double now_s_ = 0;
  std::map<Message, std::pair<double, double>> arrivals_;
  std::map<Message, std::pair<std::uint32_t, TaskIndex>> waiting_;
  std::map<std::pair<std::uint32_t, TaskIndex>, std::uint32_t> missing_;
  std::map<std::pair<std::uint32_t, TaskIndex>, std::pair<double, std::vector<Message>>> posted_;
  std::map<std::uint32_t, std::vector<std::pair<TaskIndex, double>>> collects_;
  std::map<std::uint32_t, std::uint64_t> collected_bytes_;
  std::map<std::uint32_t, std::uint64_t> awaited_bytes_;
  Timeline timeline_;
};

/// The rows of a rank in the drawing: one for sends, one for receives, one for copies and
/// reductions.
enum class Lane : std::uint32_t { sends, receives, computes };
constexpr std::uint32_t kLanes = 3;

Lane lane_of(TaskKind kind) {
  if (kind == TaskKind::send || kind == TaskKind::signal || kind == TaskKind::multicast)
    return Lane::sends;
  if (kind == TaskKind::recv || kind == TaskKind::collect || kind == TaskKind::wait_keys)
    return Lane::receives;
  return Lane::computes;
}

}  // namespace

Result<Timeline> forecast(std::span<const Schedule> schedules, const schedule::Shape& shape,
                          const LinkModel& model) {
  return Forecast(schedules, model).run(shape);
}

std::string to_svg(const Timeline& timeline, std::span<const Schedule> schedules,
                   const std::string& title) {
  constexpr double kLeft = 70;
  constexpr double kTop = 56;
  constexpr double kWidth = 900;
  constexpr double kLaneHeight = 11;
  constexpr double kRankHeight = kLanes * kLaneHeight + 8;
  constexpr int kTicks = 8;
  const double height = kTop + static_cast<double>(schedules.size()) * kRankHeight + 34;
  const double scale = timeline.end_s > 0 ? kWidth / timeline.end_s : 0;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n"
      "<style>text{{fill:#222}}.g{{stroke:#ddd}}.b{{fill:#fff}}.l0{{fill:#2b6cb0}}"
      ".l1{{fill:#2f855a}}.l2{{fill:#b7791f}}"
      "@media(prefers-color-scheme:dark){{text{{fill:#ddd}}.g{{stroke:#444}}.b{{fill:#16181d}}"
      ".l0{{fill:#63b3ed}}.l1{{fill:#68d391}}.l2{{fill:#ecc94b}}}}</style>\n"
      "<rect class=\"b\" width=\"100%\" height=\"100%\"/>\n"
      "<text x=\"{}\" y=\"20\" font-size=\"14\">{}</text>\n",
      kLeft + kWidth + 30, height, kLeft, escape(title));
  const char* const lanes[] = {"sends", "receives", "computes"};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    svg += fmt::format(
        "<rect class=\"l{}\" x=\"{}\" y=\"30\" width=\"10\" height=\"10\"/>"
        "<text x=\"{}\" y=\"39\">{}</text>\n",
        lane, kLeft + lane * 90, kLeft + lane * 90 + 14, lanes[lane]);
  }
  const double bottom = kTop + static_cast<double>(schedules.size()) * kRankHeight;
  for (int tick = 0; tick <= kTicks; ++tick) {
    const double x = kLeft + kWidth * tick / kTicks;
    svg += fmt::format(
        "<line class=\"g\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:.3g} ms</text>\n",
        x, kTop - 4, bottom, bottom + 16, timeline.end_s * 1e3 * tick / kTicks);
  }
  for (std::size_t r = 0; r < schedules.size(); ++r) {
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">rank {}</text>\n",
                       kLeft - 8, kTop + static_cast<double>(r) * kRankHeight + 20, r);
  }
  for (const Bar& bar : timeline.bars) {
    const Schedule& schedule = schedules[bar.rank];
    const auto lane = static_cast<std::uint32_t>(lane_of(schedule.tasks()[bar.task].kind));
    svg += fmt::format(
        "<rect class=\"l{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\">"
        "<title>task {}: {} ({:.4g} to {:.4g} ms)</title></rect>\n",
        lane, kLeft + bar.begin_s * scale, kTop + bar.rank * kRankHeight + lane * kLaneHeight,
        std::max((bar.end_s - bar.begin_s) * scale, 0.8), kLaneHeight - 2, bar.task,
        escape(task_text(schedule, bar.task)), bar.begin_s * 1e3, bar.end_s * 1e3);
  }
  return svg + "</svg>\n";
}

}  // namespace tutti::app
