#include "runtime/diagnostics/rank_trace.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "device/posix/private_file.hpp"
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

Status unusable(const std::string& directory, const Status& why) {
  return failure(Code::invalid_argument,
                 "{} is \"{}\", where no trace can be written ({}): name a directory that exists "
                 "and can be written on every host of the job",
                 kVariable, directory, why.message());
}

}  // namespace

Result<std::string> trace_directory() {
  const char* named = ::secure_getenv(kVariable);
  const std::string directory = named == nullptr ? "" : named;
  if (directory.empty()) return directory;
  // Creates and removes a trial file, because the directory's permissions alone do not show whether
  // a file can be created in it.
  static std::atomic<std::uint32_t> trials{0};
  const std::string trial = fmt::format("{}/.trace-{}-{}", directory, ::getpid(), ++trials);
  const auto file = device::create_private_file(trial);
  if (!file) return unusable(directory, file.status());
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
  std::ostringstream text;
  trace.write(text);
  const Status written = device::replace_private_file(path(), text.view());
  if (written.ok()) return {};
  return failure_from(written, "{}: the trace of rank {} is not written, because {}", kVariable,
                      index(owner_.rank), written.message());
}

}  // namespace tutti::runtime
