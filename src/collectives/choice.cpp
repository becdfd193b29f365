#include "collectives/choice.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include <fmt/ranges.h>

#include "base/error.hpp"

namespace tutti::collectives {

namespace {

using schedule::Collective;

constexpr std::uint64_t kSmallBytes = 8 * 1024;
constexpr std::uint32_t kFewRanks = 16;
constexpr std::uint64_t kSlotExchangeBytes = 64 * 1024;
constexpr std::uint64_t kEntryBytes = 16 * 1024;
constexpr std::uint64_t kLongBytes = 64 * 1024;
constexpr std::uint64_t kHalvedBytes = 256 * 1024;
constexpr std::string_view kOneDatagram = "short: each sender multicasts once, in one round";
constexpr std::string_view kOneSlotExchange =
    "short: each rank writes once, into a slot that all others read";
constexpr std::string_view kOrderedRounds = "log2 P rounds, folded in rank order";
constexpr std::string_view kOneRing = "written once, into a ring that all others read";
constexpr std::string_view kAutomatic = "automatic";
constexpr std::string_view kDevices[] = {"ip", "host"};

ChoiceRule rule(Collective collective, std::uint64_t max_block_bytes, std::string_view algorithm,
                std::string_view reason) {
  ChoiceRule made;
  made.collective = collective;
  made.max_block_bytes = max_block_bytes;
  made.choice.algorithm = algorithm;
  made.choice.reason = reason;
  return made;
}

/// Limits a rule to one device and to at most `max_ranks` ranks.
ChoiceRule on(std::string_view device, std::uint32_t max_ranks, ChoiceRule made) {
  made.device = device;
  made.max_ranks = max_ranks;
  return made;
}

/// Limits a rule to networks that pass multicast.
ChoiceRule by_multicast(ChoiceRule made) {
  made.needs_multicast = true;
  return made;
}

Result<std::uint64_t> number(std::string_view what, std::string_view text) {
  std::uint64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && rest == text.data() + text.size() && !text.empty()) return value;
  return failure(Code::invalid_argument,
                 "{} is '{}', which is not a whole number from 0 to 2^64 - 1: write digits only",
                 what, text);
}

Status set_parameter(schedule::Parameters& parameters, std::string_view setting) {
  const std::size_t equals = setting.find('=');
  const std::string_view name = setting.substr(0, equals);
  auto value = number(name, equals == std::string_view::npos ? "" : setting.substr(equals + 1));
  if (!value) return value.status();
  const auto given = static_cast<std::uint32_t>(std::min<std::uint64_t>(*value, UINT32_MAX));
  if (name == "ports") {
    parameters.ports = given;
  } else if (name == "radix") {
    parameters.radix = given;
  } else if (name == "segments") {
    parameters.segments = given;
  } else {
    return failure(Code::invalid_argument,
                   "'{}' is not a parameter of an algorithm: use ports, radix or segments", name);
  }
  return {};
}

/// Calls `take` for each part of `text` between separators; stops at the first error.
template <typename Take>
Status for_each_part(std::string_view text, char separator, const Take& take) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (Status status = take(text.substr(0, end)); !status) return status;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

Status set_place(ChoicePlace& place, std::string_view setting) {
  const std::size_t equals = std::min(setting.find('='), setting.size());
  const std::string_view name = setting.substr(0, equals);
  const std::string_view value = setting.substr(std::min(equals + 1, setting.size()));
  if (name == "device") {
    const auto known = std::find(std::begin(kDevices), std::end(kDevices), value);
    if (known == std::end(kDevices))
      return failure(Code::invalid_argument, "'{}' is not the name of a device: use one of {}",
                     value, fmt::join(kDevices, ", "));
    place.device = *known;
    return {};
  }
  if (name != "ranks" && name != "hosts")
    return failure(Code::invalid_argument,
                   "'{}' is not a condition of `when`: use ranks, hosts or device", name);
  auto given = number(name, value);
  if (!given) return given.status();
  (name == "ranks" ? place.ranks : place.hosts) =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(*given, UINT32_MAX));
  return {};
}

bool is_place(std::string_view part) {
  return part == ChoicePlace::kWhen ||
         (part.starts_with(ChoicePlace::kWhen) && part[ChoicePlace::kWhen.size()] == ':');
}

Result<ChoicePlace> parse_place(std::string_view text) {
  ChoicePlace place;
  text.remove_prefix(std::min(ChoicePlace::kWhen.size() + 1, text.size()));
  Status parsed = for_each_part(
      text, ':', [&](std::string_view part) -> Status { return set_place(place, part); });
  if (!parsed) return parsed;
  return place;
}

Result<ChoiceRule> parse_rule(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return failure(
        Code::invalid_argument,
        "'{}' is not a rule that chooses an algorithm: write COLLECTIVE=ALGORITHM, such as "
        "allgather=ring",
        text);
  std::string_view left = text.substr(0, equals);
  ChoiceRule made;
  if (!left.empty() && left.back() == ']') {
    const std::size_t open = std::min(left.find('['), left.size() - 1);
    auto bytes = number("the size in brackets", left.substr(open + 1, left.size() - open - 2));
    if (!bytes) return bytes.status();
    made.max_block_bytes = *bytes;
    left = left.substr(0, open);
  }
  auto collective = schedule::collective_named(left);
  if (!collective) return collective.status();
  made.collective = *collective;
  if (text.substr(equals + 1) == kAutomatic) {
    made.choice.algorithm = kAutomatic;
    return made;
  }
  auto choice = parse_choice(*collective, text.substr(equals + 1));
  if (!choice) return choice.status();
  made.choice = std::move(*choice);
  return made;
}

}  // namespace

bool ChoicePlace::matches(const Situation& situation) const {
  return ranks.value_or(situation.ranks) == situation.ranks &&
         hosts.value_or(situation.hosts) == situation.hosts &&
         (device.empty() || device == situation.device);
}

std::string to_string(const ChoicePlace& place) {
  std::string text(ChoicePlace::kWhen);
  if (place.ranks) text += fmt::format(":ranks={}", *place.ranks);
  if (place.hosts) text += fmt::format(":hosts={}", *place.hosts);
  if (!place.device.empty()) text += fmt::format(":device={}", place.device);
  return text;
}

bool ChoiceRule::matches(const Situation& situation) const {
  return collective == situation.collective && situation.ranks <= max_ranks &&
         situation.block_bytes <= max_block_bytes && place.matches(situation) &&
         (device.empty() || device == situation.device) &&
         (situation.multicast || !needs_multicast);
}

ChoiceTable ChoiceTable::defaults() {
  constexpr std::uint64_t kAny = ChoiceRule::kAnyBytes;
  constexpr std::uint32_t kAnyRanks = ChoiceRule::kAnyRanks;
  ChoiceTable table;
  table.rules_ = {
      on("host", kAnyRanks, rule(Collective::barrier, kAny, "linear", kOneSlotExchange)),
      by_multicast(on("ip", kFewRanks, rule(Collective::barrier, kAny, "linear", kOneDatagram))),
      rule(Collective::barrier, kAny, "dissemination", "ceil(log2 P) rounds for any P"),
      on("host", kAnyRanks,
         rule(Collective::broadcast, kSlotExchangeBytes, "linear", kOneSlotExchange)),
      on("host", kAnyRanks, rule(Collective::broadcast, kAny, "multicast", kOneRing)),
      by_multicast(
          on("ip", kFewRanks, rule(Collective::broadcast, kEntryBytes, "linear", kOneDatagram))),
      by_multicast(rule(Collective::broadcast, kAny, "multicast",
                        "each byte leaves the root once, whatever the number of receivers")),
      rule(Collective::broadcast, kLongBytes, "binomial",
           "no multicast on this network: log2 P rounds"),
      rule(Collective::broadcast, kAny, "scatter_allgather",
           "no multicast on this network: no rank sends more than 2 N bytes"),
      on("host", kAnyRanks,
         rule(Collective::allgather, kSlotExchangeBytes, "linear", kOneSlotExchange)),
      on("host", kFewRanks, rule(Collective::allgather, kAny, "multicast", kOneRing)),
      by_multicast(
          on("ip", kFewRanks, rule(Collective::allgather, kEntryBytes, "linear", kOneDatagram))),
      by_multicast(rule(Collective::allgather, kAny, "multicast",
                        "each block leaves its sender once, whatever the number of receivers")),
      rule(Collective::allgather, kSmallBytes, "bruck",
           "no multicast on this network: log2 P rounds"),
      rule(Collective::allgather, kAny, "ring",
           "no multicast on this network: each link is used evenly"),
      on("", kFewRanks,
         rule(Collective::allgatherv, kSmallBytes, "linear", "short blocks, few ranks: one round")),
      by_multicast(rule(Collective::allgatherv, kAny, "multicast",
                        "blocks of any sizes, each leaves its sender once")),
      rule(Collective::allgatherv, kAny, "ring",
           "no multicast on this network: each link is used evenly"),
      on("host", kAnyRanks,
         rule(Collective::gather, kSlotExchangeBytes, "linear", kOneSlotExchange)),
      by_multicast(
          on("ip", kFewRanks, rule(Collective::gather, kEntryBytes, "linear", kOneDatagram))),
      rule(Collective::gather, kSmallBytes, "binomial", "short messages: log2 P rounds"),
      rule(Collective::gather, kAny, "linear", "long messages: no byte is sent twice"),
      rule(Collective::scatter, kSmallBytes, "binomial", "short messages: log2 P rounds"),
      rule(Collective::scatter, kAny, "linear", "long messages: no byte is sent twice"),
      rule(Collective::alltoall, 256, "bruck", "short messages: log2 P rounds, packed"),
      rule(Collective::alltoall, kAny, "pairwise", "one sender per receiver at a time"),
      rule(Collective::reduce, kHalvedBytes, "binomial_ordered", kOrderedRounds),
      on("ip", kAnyRanks,
         rule(Collective::reduce, kAny, "rabenseifner",
              "long messages: no rank sends or receives more than two blocks, in rank order")),
      rule(Collective::reduce, kAny, "binomial_ordered", kOrderedRounds),
      rule(Collective::reduce_scatter, kSmallBytes, "halving", "short messages: log2 P rounds"),
      rule(Collective::reduce_scatter, kAny, "ring", "long messages: each link is used evenly"),
      rule(Collective::allreduce, kSmallBytes, "recursive_doubling",
           "short messages: log2 P rounds, folded in rank order"),
      rule(Collective::allreduce, kHalvedBytes, "rabenseifner",
           "2 log2 P rounds, fewest bytes, folded in rank order"),
      rule(Collective::allreduce, kAny, "ring", "fewest bytes, each link is used evenly"),
      rule(Collective::gatherv, kAny, "linear", "blocks of any sizes: no byte is sent twice"),
      rule(Collective::scatterv, kAny, "linear", "blocks of any sizes: no byte is sent twice"),
      on("", kFewRanks, rule(Collective::alltoallv, kAny, "linear", "few ranks: one round")),
      rule(Collective::alltoallv, kAny, "pairwise", "one sender per receiver at a time"),
      rule(Collective::reduce_scatterv, kAny, "linear_keyed", "blocks of any sizes, in rank order"),
  };
  return table;
}

Status ChoiceTable::prefer(std::vector<ChoiceRule> rules) {
  for (const ChoiceRule& one : rules) {
    if (one.choice.algorithm == kAutomatic) continue;
    auto entry = find_algorithm(one.collective, one.choice.algorithm);
    if (!entry) return entry.status();
  }
  preferences_ += static_cast<std::ptrdiff_t>(rules.size());
  rules_.insert(rules_.begin(), std::make_move_iterator(rules.begin()),
                std::make_move_iterator(rules.end()));
  return {};
}

Status ChoiceTable::prefer(std::string_view text) {
  std::vector<ChoiceRule> rules;
  ChoicePlace place;
  Status parsed = for_each_part(text, ',', [&](std::string_view part) -> Status {
    if (is_place(part)) {
      auto next = parse_place(part);
      if (next) place = *next;
      return next.status();
    }
    auto one = parse_rule(part);
    if (!one) return one.status();
    one->place = place;
    rules.push_back(std::move(*one));
    return {};
  });
  if (!parsed) return parsed;
  preferred_ = fmt::format("{}{}{}", text, preferred_.empty() ? "" : ",", preferred_);
  return prefer(std::move(rules));
}

/// Finds the first rule that matches. If this rule is a preference (ChoiceTable::prefer) for
/// "automatic", finds the first built-in rule that matches instead.
ChoiceTable::Rules::const_iterator ChoiceTable::find(const Situation& situation) const {
  const auto matches = [&](const ChoiceRule& one) { return one.matches(situation); };
  const auto found = std::find_if(rules_.begin(), rules_.end(), matches);
  if (found->choice.algorithm != kAutomatic) return found;
  return std::find_if(rules_.begin() + preferences_, rules_.end(), matches);
}

const Choice& ChoiceTable::choose(const Situation& situation) const {
  return find(situation)->choice;
}

std::uint64_t ChoiceTable::constant_up_to(Collective collective, std::uint64_t block_bytes) const {
  std::uint64_t least = ChoiceRule::kAnyBytes;
  for (const ChoiceRule& one : rules_) {
    if (one.collective == collective && one.max_block_bytes >= block_bytes)
      least = std::min(least, one.max_block_bytes);
  }
  return least;
}

bool ChoiceTable::prefers(const Situation& situation) const {
  return find(situation) < rules_.begin() + preferences_;
}

std::string ChoiceTable::misplaced(const Situation& situation) const {
  std::string places;
  std::string last;
  for (auto one = rules_.begin(); one != rules_.begin() + preferences_; ++one) {
    if (one->place.matches(situation)) return {};
    std::string place = to_string(one->place);
    if (place == last) continue;
    places += (places.empty() ? "" : ", ") + place;
    last = std::move(place);
  }
  return places;
}

std::string to_string(const Choice& choice) {
  const schedule::Parameters usual;
  const schedule::Parameters& p = choice.parameters;
  std::string text = choice.algorithm;
  if (p.ports != usual.ports) text += fmt::format(":ports={}", p.ports);
  if (p.radix != usual.radix) text += fmt::format(":radix={}", p.radix);
  if (p.segments != usual.segments) text += fmt::format(":segments={}", p.segments);
  return text;
}

Result<Choice> parse_choice(Collective collective, std::string_view text) {
  Choice choice;
  choice.reason = "requested";
  Status parsed = for_each_part(text, ':', [&](std::string_view part) -> Status {
    if (!choice.algorithm.empty()) return set_parameter(choice.parameters, part);
    choice.algorithm = part;
    return {};
  });
  if (!parsed) return parsed;
  auto entry = find_algorithm(collective, choice.algorithm);
  if (!entry) return entry.status();
  choice.algorithm = (*entry)->name;
  return choice;
}

schedule::Parameters suited(const AlgorithmEntry& entry, schedule::Parameters parameters,
                            std::uint32_t ranks, std::uint64_t bytes) {
  if (parameters.segments == 1 && (entry.heeds & kSegments) != 0)
    parameters.segments = pipeline_segments(ranks, bytes);
  return parameters;
}

// A chain of P ranks passes s segments on in P - 2 + s steps. The fixed cost of a step dominates
// for segments below about 16 KiB, so shorter segments would be slower.
std::uint32_t pipeline_segments(std::uint32_t ranks, std::uint64_t bytes) {
  constexpr std::uint64_t kMinSegmentBytes = 16 * 1024;
  constexpr std::uint64_t kMaxSegments = 256;
  if (ranks < 3) return 1;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(bytes / kMinSegmentBytes, 1, kMaxSegments));
}

}  // namespace tutti::collectives
