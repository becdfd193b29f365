#include "check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "exchange.hpp"

namespace radix_sort {
namespace {

/// The data that each rank sends to all others for the check of the sorted keys.
struct Report {
  Fingerprint before;
  Fingerprint after;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t disorder = 0;
};

void add(Fingerprint& sum, const Fingerprint& one) {
  sum.keys += one.keys;
  sum.sum += one.sum;
  sum.mixed_sum += one.mixed_sum;
}

Verdict judge(std::span<const Report> reports) {
  Verdict verdict;
  Fingerprint before;
  Fingerprint after;
  std::uint64_t last = 0;
  for (const Report& report : reports) {
    add(before, report.before);
    add(after, report.after);
    verdict.disorder_within += report.disorder;
    if (report.after.keys == 0) continue;
    if (report.first < last) ++verdict.disorder_across;
    last = std::max(last, report.last);
  }
  verdict.same_keys = before == after;
  return verdict;
}

}  // namespace

std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ (word >> 32)) * 0xd6e8'feb8'6659'fd93u;
  word = (word ^ (word >> 32)) * 0xd6e8'feb8'6659'fd93u;
  return word ^ (word >> 32);
}

template <typename Key>
Fingerprint fingerprint(std::span<const Key> keys) {
  Fingerprint print{.keys = keys.size()};
  for (const Key key : keys) {
    print.sum += key;
    print.mixed_sum += mixed(key);
  }
  return print;
}

std::string Verdict::text() const {
  std::string text;
  const auto say = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (disorder_within != 0)
    say(fmt::format("{} keys are less than their predecessor on the same rank", disorder_within));
  if (disorder_across != 0)
    say(fmt::format("{} ranks begin with a key less than one on a lower rank", disorder_across));
  if (!same_keys) say("the sort lost, added or changed keys");
  return text;
}

template <typename Key>
tutti::Result<Verdict> check(tutti::Communicator& communicator, std::span<const Key> keys,
                             const Fingerprint& before) {
  Report mine{.before = before, .after = fingerprint(keys)};
  if (!keys.empty()) {
    mine.first = keys.front();
    mine.last = keys.back();
  }
  for (std::size_t i = 1; i < keys.size(); ++i) mine.disorder += keys[i] < keys[i - 1] ? 1 : 0;
  std::vector<Report> all(communicator.size());
  tutti::Status status =
      finish(communicator.allgather(std::as_bytes(std::span(&mine, 1)),
                                    std::as_writable_bytes(std::span(all)), {.will_wait = true}));
  if (!status) return status;
  return judge(all);
}

template Fingerprint fingerprint(std::span<const std::uint32_t>);
template Fingerprint fingerprint(std::span<const std::uint64_t>);
template tutti::Result<Verdict> check(tutti::Communicator&, std::span<const std::uint32_t>,
                                      const Fingerprint&);
template tutti::Result<Verdict> check(tutti::Communicator&, std::span<const std::uint64_t>,
                                      const Fingerprint&);

}  // namespace radix_sort
