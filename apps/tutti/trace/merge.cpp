#include "trace/merge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <tuple>

#include "base/error.hpp"
#include "runtime/bootstrap/packed_number.hpp"
#include "runtime/bootstrap/store/store_frame.hpp"

namespace tutti::app {
namespace {

using nlohmann::json;
using observe::TraceTime;
using observe::TraceTrack;

constexpr const char* kHeader = "tutti_trace";
/// The fields of a file's header that the merged trace shows.
constexpr std::array kShownFields{"job",
                                  "rank",
                                  "size",
                                  "oldest_spans_dropped",
                                  "clock_of_rank_0",
                                  "clock_offset_ns",
                                  "clock_error_ns",
                                  "clock_exchanges",
                                  "origin_ns"};
constexpr std::uint64_t kMaxClockErrorNs = std::uint64_t{1} << 61;  ///< two of them fit a sum
/// About 53 days: the difference of any two times up to this one fits TraceTime.
constexpr TraceTime kMaxTime{4'600'000'000'000'000'000};

/// The values that identify a message, equal in the spans of sender and receiver.
struct MessageKey {
  std::int64_t communicator = 0;
  std::int64_t sequence = 0;
  std::int64_t from = 0;
  std::int64_t to = 0;  ///< receiving rank; -1: all ranks
  std::int64_t slot = 0;

  auto operator<=>(const MessageKey&) const = default;
};
struct MessageEnd {
  TraceTrack track;
  TraceTime begin;
  TraceTime end;
};

/// A whole number of a header. Throws std::out_of_range unless it is from `least` to `most`.
std::uint64_t number(const json& header, const char* name, std::uint64_t least,
                     std::uint64_t most) {
  const auto value = runtime::whole<std::uint64_t>(header.at(name), name);
  if (value >= least && value <= most) return value;
  throw std::out_of_range(fmt::format("{} is {} instead of {} to {}", name, value, least, most));
}

/// A time of an event, in microseconds in the file. Throws std::out_of_range if it is too long.
TraceTime time_of(const json& event, const char* name) {
  const double picoseconds = event.at(name).get<double>() * 1e6;
  if (std::abs(picoseconds) <= static_cast<double>(kMaxTime.count()))
    return TraceTime(std::llround(picoseconds));
  throw std::out_of_range(fmt::format("{} of an event is {} us instead of at most {:.0f} us", name,
                                      picoseconds / 1e6,
                                      static_cast<double>(kMaxTime.count()) / 1e6));
}

/// The name of the job in a file name "trace-JOB-RANK.json"; "" for other file names.
std::string job_of(const std::string& name) {
  constexpr std::string_view kBegin = "trace-";
  constexpr std::string_view kEnd = ".json";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return {};
  const std::size_t dash = name.rfind('-');
  return dash < kBegin.size() ? std::string() : name.substr(kBegin.size(), dash - kBegin.size());
}

Result<std::vector<std::string>> files_of(const std::string& directory, const std::string& job) {
  std::map<std::string, std::vector<std::string>> jobs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string its = job_of(entry.path().filename().string());
    if (!its.empty()) jobs[its].push_back(entry.path().string());
  }
  if (error)
    return failure(Code::invalid_argument,
                   "cannot read the folder of traces {} ({}): check its path and permissions",
                   directory, error.message());
  if (jobs.empty())
    return failure(Code::invalid_argument, "folder {} has no traces: run a job with TUTTI_TRACE={}",
                   directory, directory);
  std::vector<std::string> names;
  for (const auto& [name, files] : jobs) names.push_back(name);
  const auto found = job.empty() && jobs.size() == 1 ? jobs.begin() : jobs.find(job);
  if (found != jobs.end()) return found->second;
  return failure(Code::invalid_argument,
                 "--job must name one of the jobs that have traces in folder {}: use one of {}",
                 directory, fmt::join(names, ", "));
}

class Merge {
 public:
  explicit Merge(MergedTrace& merged) : merged_(merged) {}

  Status add_file(const std::string& path) {
    std::ifstream file(path);
    const json content = json::parse(file, nullptr, false);
    try {
      add(content);
    } catch (const std::exception& error) {
      return failure(Code::invalid_argument, "file {} is not a trace of Tutti ({}): remove it",
                     path, error.what());
    }
    return {};
  }

  void finish() {
    for (std::uint32_t r = 0; r < merged_.size; ++r) {
      if (ranks_.count(r) == 0) merged_.missing.push_back(r);
    }
    connect();
    describe();
  }

 private:
  void add(const json& content) {
    const json& header = content.at("otherData").at(kHeader);
    merged_.job = header.at("job").get<std::string>();
    merged_.size =
        static_cast<std::uint32_t>(number(header, "size", 1, runtime::kMaxBootstrapRanks));
    ranks_.insert(static_cast<std::uint32_t>(number(header, "rank", 0, merged_.size - 1)));
    merged_.dropped += number(header, "oldest_spans_dropped", 0, UINT64_MAX);
    errors_ns_.push_back(
        static_cast<std::int64_t>(number(header, "clock_error_ns", 0, kMaxClockErrorNs)));
    for (const json& event : content.at("traceEvents")) add_event(event);
    json& shown = headers_.emplace_back();
    for (const char* name : kShownFields) {
      const json& value = header.at(name);
      if (value.is_structured())
        throw std::out_of_range(
            fmt::format("{} is a list or an object instead of one value", name));
      shown[name] = value;
    }
  }

  void add_event(const json& event) {
    const auto kind = event.at("ph").get<std::string>();
    const TraceTrack track{event.at("pid").get<std::uint32_t>() - 1,
                           event.at("tid").get<std::uint32_t>()};
    const auto name = event.at("name").get<std::string>();
    if (kind == "M") {
      const auto given = event.at("args").at("name").get<std::string>();
      if (name == "process_name") merged_.trace.add_group(track.group, given);
      if (name == "thread_name") merged_.trace.name_track(track, given);
      return;
    }
    if (kind != "X" && kind != "i") return;
    const TraceTime begin = time_of(event, "ts");
    const auto category = event.value("cat", std::string());
    observe::TraceArguments arguments;
    std::map<std::string, std::int64_t> values;
    if (const auto given = event.find("args"); given != event.end()) {
      for (const auto& [key, value] : given->items()) values[key] = value.get<std::int64_t>();
    }
    for (const auto& [key, value] : values) arguments.push_back({key, value});
    ++merged_.spans;
    if (kind == "i") {
      merged_.trace.mark(track, name, begin, category, arguments);
      return;
    }
    const TraceTime length = time_of(event, "dur");
    if (length.count() < 0 || begin + length > kMaxTime)
      throw std::out_of_range(
          fmt::format("an event at {} ps has a dur of {} ps: it must be 0 or more and end by {} ps",
                      begin.count(), length.count(), kMaxTime.count()));
    merged_.trace.add(track, name, begin, length, category, arguments);
    note_message(category, values, {track, begin, begin + length});
  }

  /// If a span sends or receives a message, records the span as the sending or the receiving end of
  /// this message.
  void note_message(const std::string& category, std::map<std::string, std::int64_t>& values,
                    const MessageEnd& end) {
    const std::int64_t me = end.track.group;
    MessageKey key{values["communicator"], values["sequence"], me, -1, values["slot"]};
    const auto peer = values.find("peer");
    if (category == "multicast") {
      sent_[key] = end;
    } else if (peer == values.end()) {
      return;
    } else if (category == "send") {
      key.to = peer->second;
      sent_[key] = end;
    } else if (category == "receive") {
      key.from = peer->second;
      key.to = me;
      came_.emplace_back(key, end);
    } else if (category == "collect") {
      key.from = peer->second;
      // A "collect" span begins when the first chunk arrives. The arrow from the sender therefore
      // ends at the beginning of the span.
      came_.emplace_back(key, MessageEnd{end.track, end.begin, end.begin});
    }
  }

  void connect() {
    for (const auto& [key, end] : came_) {
      const auto sent = sent_.find(key);
      if (sent == sent_.end()) continue;
      ++merged_.messages;
      const MessageEnd& begin = sent->second;
      // A viewer attaches an arrow to the span in which the arrow ends. A span does not include the
      // instant of its end, so the arrow ends just before this instant.
      const TraceTime inside = std::max(end.begin, end.end - TraceTime(1));
      merged_.trace.connect(begin.track, begin.begin, end.track, inside);
      const auto before = std::chrono::duration_cast<Nanoseconds>(begin.begin - end.end);
      merged_.earliest = std::max(merged_.earliest, before);
    }
  }

  void describe() {
    // The error of a rank's clock is relative to the clock of rank 0. The error between the clocks
    // of two ranks is therefore at most the sum of the two errors.
    std::sort(errors_ns_.rbegin(), errors_ns_.rend());
    std::int64_t worst = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(errors_ns_.size(), 2); ++i)
      worst += errors_ns_[i];
    merged_.clock_error = Nanoseconds(worst);
    merged_.trace.describe(kHeader, json({{"job", merged_.job},
                                          {"size", merged_.size},
                                          {"ranks_missing", merged_.missing},
                                          {"oldest_spans_dropped", merged_.dropped},
                                          {"clock_error_ns", worst},
                                          {"messages_matched", merged_.messages},
                                          {"earliest_before_sent_ns", merged_.earliest.count()},
                                          {"ranks", headers_}})
                                        .dump());
  }

  MergedTrace& merged_;
  std::set<std::uint32_t> ranks_;
  std::vector<json> headers_;
  std::vector<std::int64_t> errors_ns_;
  std::map<MessageKey, MessageEnd> sent_;
  std::vector<std::pair<MessageKey, MessageEnd>> came_;
};

}  // namespace

Result<MergedTrace> merge_traces(const std::string& directory, const std::string& job) {
  auto files = files_of(directory, job);
  if (!files) return files.status();
  std::sort(files->begin(), files->end());
  MergedTrace merged;
  Merge merge(merged);
  for (const std::string& path : *files) {
    if (Status status = merge.add_file(path); !status) return status;
  }
  merge.finish();
  return merged;
}

}  // namespace tutti::app
