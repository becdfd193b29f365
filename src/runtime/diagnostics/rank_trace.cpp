#include "runtime/diagnostics/rank_trace.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "observe/trace.hpp"
#include "runtime/diagnostics/identity.hpp"
#include "runtime/progress/clock.hpp"

namespace tutti::runtime {

namespace {

constexpr const char* kVariable = "TUTTI_TRACE";
constexpr std::size_t kTaskSpans = 128 * 1024;
constexpr std::size_t kThreadSpans = 16 * 1024;
static_assert(sizeof(observe::TraceSpan) == 56,
              "rank_trace.hpp states the memory of a trace, which follows from this size");

Status unusable(const std::string& directory, int error) {
  return failure(Code::invalid_argument,
                 "{} is \"{}\", where no trace can be written ({}): name a directory that exists "
                 "and can be written on every host of the job",
                 kVariable, directory, std::strerror(error));
}

}  // namespace

Result<std::string> trace_directory() {
  const char* named = std::getenv(kVariable);
  const std::string directory = named == nullptr ? "" : named;
  if (directory.empty()) return directory;
  // A trial file is created, because permissions do not show whether a file can be created.
  static std::atomic<std::uint32_t> trials{0};
  const std::string trial = fmt::format("{}/.trace-{}-{}", directory, ::getpid(), ++trials);
  const int file = ::open(trial.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return unusable(directory, errno);
  ::close(file);
  (void)::unlink(trial.c_str());
  return directory;
}

std::uint64_t clock_identity() {
  const std::string clock = namespace_identity("time");
  if (boot_identity().empty() || clock.empty()) return 0;
  return std::hash<std::string>{}(boot_identity() + clock);
}

RankTrace::RankTrace(TraceOwner owner, const engine::ClockComparison& comparison,
                     std::uint64_t own_identity)
    : owner_(std::move(owner)),
      exchanges_(comparison.bounds.exchanges()),
      tasks_("tasks", kTaskSpans, now),
      engine_owner_("owner", kThreadSpans, now) {
  same_clock_ = owner_.rank == Rank{0} || (own_identity != 0 && comparison.bounds.may_be_equal() &&
                                           own_identity == comparison.identity);
  clock_.origin = comparison.origin;
  if (same_clock_) return;
  clock_.offset = comparison.bounds.offset();
  clock_.error = comparison.bounds.error();
}

observe::TraceLog& RankTrace::add_worker() {
  const std::lock_guard lock(mutex_);
  workers_.push_back(std::make_unique<observe::TraceLog>(
      fmt::format("receive worker {}", workers_.size()), kThreadSpans, now));
  return *workers_.back();
}

std::string RankTrace::path() const {
  return fmt::format("{}/trace-{}-{}.json", owner_.directory, owner_.job, index(owner_.rank));
}

Status RankTrace::write() const {
  std::vector<const observe::TraceLog*> logs{&tasks_, &engine_owner_};
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : workers_) logs.push_back(one.get());
  }
  observe::Trace trace;
  observe::export_rank(trace, owner_.rank,
                       fmt::format("rank {} ({})", index(owner_.rank), owner_.name), logs, clock_);
  std::uint64_t dropped = 0;
  for (const observe::TraceLog* log : logs) dropped += log->content().dropped;
  trace.describe("tutti_trace", nlohmann::json({{"job", owner_.job},
                                                {"rank", index(owner_.rank)},
                                                {"size", owner_.size},
                                                {"oldest_spans_dropped", dropped},
                                                {"clock_of_rank_0", same_clock_},
                                                {"clock_offset_ns", clock_.offset.count()},
                                                {"clock_error_ns", clock_.error.count()},
                                                {"clock_exchanges", exchanges_},
                                                {"origin_ns", clock_.origin.nanoseconds}})
                                    .dump());
  const std::string unfinished = fmt::format("{}.{}", path(), ::getpid());
  {
    std::ofstream file(unfinished, std::ios::trunc);
    trace.write(file);
    file.close();
    if (!file) {
      return failure(Code::system, "{}: the trace of rank {} cannot be written to {}", kVariable,
                     index(owner_.rank), unfinished);
    }
  }
  if (::rename(unfinished.c_str(), path().c_str()) == 0) return {};
  return system_failure(errno, "renaming the trace to {}", path());
}

}  // namespace tutti::runtime
