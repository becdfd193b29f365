// Tag matching by a plain search, as a reference for tests of the matcher.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <utility>

#include "protocol/matching/tag_matcher.hpp"

namespace tutti::test {

/// Searches one list of receives and one list of messages, oldest first.
class ReferenceMatcher {
 public:
  using TagMatcher = protocol::TagMatcher;
  using Number = TagMatcher::Number;

  std::optional<Number> post(Number receive, const TagMatcher::Pattern& pattern) {
    for (auto at = messages_.begin(); at != messages_.end(); ++at) {
      if (!fits(pattern, at->second)) continue;
      const Number found = at->first;
      messages_.erase(at);
      return found;
    }
    receives_.emplace_back(receive, pattern);
    return std::nullopt;
  }
  std::optional<Number> arrive(Number message, const TagMatcher::Envelope& envelope) {
    for (auto at = receives_.begin(); at != receives_.end(); ++at) {
      if (!fits(at->second, envelope)) continue;
      const Number found = at->first;
      receives_.erase(at);
      return found;
    }
    messages_.emplace_back(message, envelope);
    return std::nullopt;
  }
  bool cancel(Number receive) {
    return std::erase_if(receives_, [&](const auto& one) { return one.first == receive; }) > 0;
  }
  std::size_t kept_receives() const { return receives_.size(); }
  std::size_t kept_messages() const { return messages_.size(); }

 private:
  static bool fits(const TagMatcher::Pattern& pattern, const TagMatcher::Envelope& envelope) {
    const bool source = pattern.source == kNoRank || pattern.source == envelope.source;
    return source && (pattern.tag & pattern.mask) == (envelope.tag & pattern.mask);
  }

  std::list<std::pair<Number, TagMatcher::Pattern>> receives_;
  std::list<std::pair<Number, TagMatcher::Envelope>> messages_;
};

}  // namespace tutti::test
