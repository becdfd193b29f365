#include "observe/trace_log.hpp"

#include <algorithm>

namespace tutti::observe {

const char* to_string(TraceKind kind) {
  static constexpr const char* kNames[kTraceKinds] = {
      "collective", "phase", "send",   "receive", "compute",       "multicast",
      "collect",    "fetch", "cutoff", "owner",   "receive worker"};
  return kNames[static_cast<std::size_t>(kind)];
}

TraceLog::TraceLog(std::string name, std::size_t max_spans, Clock clock)
    : name_(std::move(name)), max_spans_(std::max<std::size_t>(max_spans, 1)), clock_(clock) {
  ring_.reserve(max_spans_);
}

void TraceLog::add(const TraceSpan& span) {
  const std::lock_guard lock(mutex_);
  if (ring_.size() < max_spans_) {
    ring_.push_back(span);
  } else {
    ring_[added_ % max_spans_] = span;
  }
  ++added_;
}

TraceLog::Content TraceLog::content() const {
  const std::lock_guard lock(mutex_);
  Content content{ring_, added_ - ring_.size()};
  const auto oldest = static_cast<std::ptrdiff_t>(content.dropped % max_spans_);
  if (oldest > 0)
    std::rotate(content.spans.begin(), content.spans.begin() + oldest, content.spans.end());
  return content;
}

void CommunicatorTrace::add(TraceSpan span) {
  span.communicator = communicator_;
  if (index(span.peer) < members_.size()) span.peer = members_[index(span.peer)];
  log_.add(span);
}

void BusyTrace::add(const char* what, Instant since) {
  log_->add({.kind = kind_, .name = what, .detail = thread_, .begin = since, .end = log_->now()});
}

}  // namespace tutti::observe
