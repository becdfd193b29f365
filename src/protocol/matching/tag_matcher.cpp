#include "protocol/matching/tag_matcher.hpp"

#include <algorithm>

namespace tutti::protocol {

namespace {

bool agree(std::uint64_t tag, std::uint64_t other, std::uint64_t mask) {
  return ((tag ^ other) & mask) == 0;
}

}  // namespace

TagMatcher::Number TagMatcher::take(Entries& entries, Entries::iterator at) {
  const Number number = at->number;
  entries.erase(at);
  return number;
}

std::optional<TagMatcher::Number> TagMatcher::post(Number receive, const Pattern& pattern) {
  if (const auto message = take_oldest(pattern)) {
    --kept_messages_;
    return message;
  }
  receives_[pattern.source].push_back({age_++, receive, pattern.tag, pattern.mask});
  ++kept_receives_;
  return std::nullopt;
}

std::optional<TagMatcher::Number> TagMatcher::take_oldest(const Pattern& pattern) {
  Entries* from = nullptr;
  Entries::iterator oldest;
  const auto look = [&](Entries& entries) {
    const auto fits = std::find_if(entries.begin(), entries.end(), [&](const Entry& one) {
      return agree(one.tag, pattern.tag, pattern.mask);
    });
    if (fits == entries.end() || (from != nullptr && oldest->age < fits->age)) return;
    from = &entries;
    oldest = fits;
  };
  if (pattern.source != kNoRank) {
    if (const auto found = messages_.find(pattern.source); found != messages_.end())
      look(found->second);
  } else {
    for (auto& [source, entries] : messages_) look(entries);
  }
  if (from == nullptr) return std::nullopt;
  return take(*from, oldest);
}

std::optional<TagMatcher::Number> TagMatcher::arrive(Number message, const Envelope& envelope) {
  Entries* from = nullptr;
  Entries::iterator oldest;
  for (const Rank source : {envelope.source, kNoRank}) {
    const auto found = receives_.find(source);
    if (found == receives_.end()) continue;
    Entries& entries = found->second;
    const auto fits = std::find_if(entries.begin(), entries.end(), [&](const Entry& one) {
      return agree(one.tag, envelope.tag, one.mask);
    });
    if (fits == entries.end() || (from != nullptr && oldest->age < fits->age)) continue;
    from = &entries;
    oldest = fits;
  }
  if (from == nullptr) {
    messages_[envelope.source].push_back({age_++, message, envelope.tag});
    ++kept_messages_;
    return std::nullopt;
  }
  --kept_receives_;
  return take(*from, oldest);
}

bool TagMatcher::cancel(Number receive) {
  for (auto& [source, entries] : receives_) {
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const Entry& one) { return one.number == receive; });
    if (found == entries.end()) continue;
    take(entries, found);
    --kept_receives_;
    return true;
  }
  return false;
}

}  // namespace tutti::protocol
