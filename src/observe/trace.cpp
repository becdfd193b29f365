#include "observe/trace.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tutti::observe {
namespace {

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(TraceTime time) {
  const std::int64_t count = time.count();
  const std::uint64_t size =
      count < 0 ? 0 - static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(count);
  return fmt::format("{}{}.{:06}", count < 0 ? "-" : "", size / 1'000'000, size % 1'000'000);
}

}  // namespace

std::uint32_t Trace::add_group(std::string_view name) {
  const std::uint32_t number = next_group_;
  add_group(number, name);
  return number;
}

void Trace::add_group(std::uint32_t number, std::string_view name) {
  groups_.push_back({{number, 0}, std::string(name)});
  next_group_ = std::max(next_group_, number + 1);
}

void Trace::name_track(TraceTrack track, std::string_view name) {
  tracks_.push_back({track, std::string(name)});
}

Trace::NameIndex Trace::index_of(std::string_view name) {
  const auto [found, fresh] =
      name_indices_.try_emplace(std::string(name), static_cast<NameIndex>(names_.size()));
  if (fresh) names_.emplace_back(name);
  return found->second;
}

void Trace::keep(Span span, std::string_view name, std::string_view category,
                 const TraceArguments& arguments) {
  if (spans_.size() == max_spans_) {
    ++left_out_;
    return;
  }
  span.name = index_of(name);
  span.category = index_of(category);
  span.first_argument = arguments_.size();
  span.argument_count = static_cast<std::uint32_t>(arguments.size());
  for (const TraceArgument& one : arguments) arguments_.push_back({index_of(one.name), one.value});
  spans_.push_back(span);
}

void Trace::add(TraceTrack track, std::string_view name, TraceTime begin, TraceTime length,
                std::string_view category, const TraceArguments& arguments) {
  Span span;
  span.track = track;
  span.begin = begin;
  span.length = length;
  keep(span, name, category, arguments);
}

void Trace::mark(TraceTrack track, std::string_view name, TraceTime at, std::string_view category,
                 const TraceArguments& arguments) {
  Span span;
  span.track = track;
  span.begin = at;
  span.marks = true;
  keep(span, name, category, arguments);
}

void Trace::connect(TraceTrack from, TraceTime from_at, TraceTrack to, TraceTime to_at) {
  arrows_.push_back({from, from_at, to, to_at});
}

void Trace::describe(std::string_view name, std::string json) {
  descriptions_.emplace_back(name, std::move(json));
}

void Trace::write_span(std::ostream& out, const Span& span) const {
  out << fmt::format(R"({{"ph":"{}","name":{},"pid":{},"tid":{},"ts":{})", span.marks ? 'i' : 'X',
                     json_text(names_[span.name]), span.track.group + 1, span.track.number,
                     microseconds(span.begin));
  if (span.marks) {
    out << R"(,"s":"t")";
  } else {
    out << fmt::format(R"(,"dur":{})", microseconds(span.length));
  }
  if (!names_[span.category].empty())
    out << fmt::format(R"(,"cat":{})", json_text(names_[span.category]));
  for (std::uint32_t a = 0; a < span.argument_count; ++a) {
    const Argument& one = arguments_[span.first_argument + a];
    out << (a == 0 ? R"(,"args":{)" : ",") << json_text(names_[one.name]) << ':' << one.value;
  }
  out << (span.argument_count > 0 ? "}}" : "}");
}

void Trace::write(std::ostream& out) const {
  out << "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"spans_left_out\":" << left_out_;
  for (const auto& [name, json] : descriptions_) out << ",\n" << json_text(name) << ':' << json;
  out << "},\"traceEvents\":[";
  const char* separator = "\n";
  const auto name = [&](const char* kind, const Named& one) {
    out << separator
        << fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", kind,
                       one.track.group + 1, one.track.number, json_text(one.name));
    separator = ",\n";
  };
  for (const Named& one : groups_) name("process_name", one);
  for (const Named& one : tracks_) name("thread_name", one);
  for (const Span& span : spans_) {
    out << separator;
    write_span(out, span);
    separator = ",\n";
  }
  std::size_t number = 0;
  const auto arrow_end = [&](const char* how, TraceTrack track, TraceTime at) {
    out << separator
        << fmt::format(R"({{{},"id":{},"name":"message","cat":"message")"
                       R"(,"pid":{},"tid":{},"ts":{}}})",
                       how, number, track.group + 1, track.number, microseconds(at));
    separator = ",\n";
  };
  for (const Arrow& one : arrows_) {
    arrow_end(R"("ph":"s")", one.from, one.from_at);
    arrow_end(R"("ph":"f","bp":"e")", one.to, one.to_at);
    ++number;
  }
  out << "\n]}\n";
}

}  // namespace tutti::observe
