#include "sim/fault/fault_plan.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.hpp"
#include "base/number.hpp"

namespace tutti::device::fault {

namespace {

constexpr std::array<std::string_view, 5> kActions = {"drop", "delay", "reorder", "duplicate",
                                                      "corrupt"};
constexpr std::array<std::string_view, 2> kPlaces = {"sender", "receiver"};
constexpr std::array<std::string_view, 3> kPackets = {"chunk", "reliable", "probe"};
constexpr std::uint32_t kPpmPerPercent = 10'000;
constexpr std::uint32_t kDefaultDistance = 3;
constexpr Nanoseconds kDefaultDelay{1'000'000};
constexpr Nanoseconds kDefaultReorder{500'000};

struct Unit {
  std::string_view name;
  std::int64_t nanoseconds;
};
// "ms" precedes "s" in the list, because a text that ends in "ms" also ends in "s".
constexpr std::array<Unit, 4> kUnits = {Unit{"ns", 1}, Unit{"us", 1'000}, Unit{"ms", 1'000'000},
                                        Unit{"s", 1'000'000'000}};

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Splits `text` at any of `separators` and drops empty parts.
std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(separators), text.size());
    if (const auto piece = trim(text.substr(0, end)); !piece.empty()) pieces.push_back(piece);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

template <typename Enum, std::size_t N>
std::optional<Enum> named(const std::array<std::string_view, N>& names, std::string_view text) {
  const auto at = std::find(names.begin(), names.end(), text);
  if (at == names.end()) return std::nullopt;
  return static_cast<Enum>(at - names.begin());
}

/// Parses a percentage such as "12.5%", with at most four decimals and at most 100 %, into parts
/// per million.
std::optional<std::uint32_t> parse_rate(std::string_view text) {
  if (text.empty() || text.back() != '%') return std::nullopt;
  text.remove_suffix(1);
  const auto point = std::min(text.find('.'), text.size());
  const auto whole = whole_number<std::uint32_t>(text.substr(0, point));
  if (!whole || *whole > 100) return std::nullopt;
  std::uint32_t ppm = *whole * kPpmPerPercent;
  std::uint32_t digit_ppm = kPpmPerPercent;
  for (const char digit : text.substr(std::min(point + 1, text.size()))) {
    digit_ppm /= 10;
    if (digit < '0' || digit > '9' || digit_ppm == 0) return std::nullopt;
    ppm += static_cast<std::uint32_t>(digit - '0') * digit_ppm;
  }
  if (ppm > 100 * kPpmPerPercent) return std::nullopt;
  return ppm;
}

std::string print_rate(std::uint32_t ppm) {
  std::string text = fmt::format("{}.{:04}", ppm / kPpmPerPercent, ppm % kPpmPerPercent);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + "%";
}

std::optional<Nanoseconds> parse_time(std::string_view text) {
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    const auto value = whole_number<std::int64_t>(text.substr(0, text.size() - unit.name.size()));
    if (!value || *value < 0 ||
        *value > std::numeric_limits<std::int64_t>::max() / unit.nanoseconds) {
      return std::nullopt;
    }
    return Nanoseconds(*value * unit.nanoseconds);
  }
  return std::nullopt;
}

std::string print_time(Nanoseconds time) {
  const Unit* best = &kUnits[0];
  for (const Unit& unit : kUnits) {
    if (time.count() % unit.nanoseconds == 0) best = &unit;
  }
  return fmt::format("{}{}", time.count() / best->nanoseconds, best->name);
}

std::optional<Interval> parse_interval(std::string_view text) {
  const auto dash = std::min(text.find('-'), text.size());
  const auto first = whole_number<std::uint32_t>(text.substr(0, dash));
  const auto last =
      dash == text.size() ? first : whole_number<std::uint32_t>(text.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return Interval{*first, *last};
}

std::string print_interval(const Interval& interval) {
  if (interval.first == interval.last) return fmt::format("{}", interval.first);
  return fmt::format("{}-{}", interval.first, interval.last);
}

std::optional<std::vector<Rank>> parse_ranks(std::string_view text) {
  std::vector<Rank> ranks;
  for (const std::string_view one : split(text, ",")) {
    const auto rank = whole_number<std::uint32_t>(one);
    if (!rank) return std::nullopt;
    ranks.push_back(static_cast<Rank>(*rank));
  }
  if (ranks.empty()) return std::nullopt;
  return ranks;
}

/// Stores the result of parsing in `target`; returns false if parsing gave no value.
template <typename Target, typename Value>
bool store(Target& target, std::optional<Value> value) {
  if (value) target = *value;
  return value.has_value();
}

bool parse_condition(std::string_view name, std::string_view value, FaultRule& rule) {
  if (name == "rate") return store(rule.rate_ppm, parse_rate(value));
  if (name == "epoch") return store(rule.epochs, parse_interval(value));
  if (name == "psn") return store(rule.psns, parse_interval(value));
  if (name == "ranks") return store(rule.ranks, parse_ranks(value));
  if (name == "occurrences") return store(rule.occurrences, whole_number<std::uint32_t>(value));
  if (name == "distance") return store(rule.distance, whole_number<std::uint32_t>(value));
  if (name == "by") return store(rule.by, parse_time(value));
  if (name != "source") return false;
  const auto rank = whole_number<std::uint32_t>(value);
  if (rank) rule.source = static_cast<Rank>(*rank);
  return rank.has_value();
}

Result<FaultRule> parse_rule(std::string_view statement) {
  const auto words = split(statement, " \t");
  const auto action = named<Action>(kActions, words[0]);
  const auto place = words.size() > 1 ? named<FaultSite>(kPlaces, words[1]) : std::nullopt;
  const auto packet = words.size() > 2 ? named<Packet>(kPackets, words[2]) : std::nullopt;
  if (!action || !place || !packet) {
    return failure(
        Code::invalid_argument,
        "fault rule \"{}\" does not begin with an action, a site and a kind of packet: write "
        "drop|delay|reorder|duplicate|corrupt, then sender|receiver, then "
        "chunk|reliable|probe",
        statement);
  }
  FaultRule rule{.action = *action, .place = *place, .packet = *packet};
  if (rule.action == Action::delay) rule.by = kDefaultDelay;
  if (rule.action == Action::reorder) {
    rule.by = kDefaultReorder;
    rule.distance = kDefaultDistance;
  }
  for (std::size_t i = 3; i < words.size(); ++i) {
    const auto equals = std::min(words[i].find('='), words[i].size());
    const auto value = words[i].substr(std::min(equals + 1, words[i].size()));
    if (!parse_condition(words[i].substr(0, equals), value, rule)) {
      return failure(
          Code::invalid_argument,
          "fault rule \"{}\" has an invalid setting \"{}\": use settings such as rate=1.5%, "
          "epoch=2, psn=5-9, source=0, ranks=1,2, occurrences=1, by=3ms and distance=4",
          statement, words[i]);
    }
  }
  if (Status status = check(rule); !status) return status;
  return rule;
}

}  // namespace

Status check(const FaultRule& rule) {
  const auto refuse = [&](const char* why) {
    return failure(Code::invalid_argument, "fault rule \"{}\" is invalid: {}", to_string(rule),
                   why);
  };
  const bool at_sender = rule.place == FaultSite::sender;
  if (rule.packet != Packet::chunk) {
    if (rule.epochs || rule.psns) return refuse("epoch and psn apply to chunks only");
    if (rule.packet == Packet::reliable && !at_sender) {
      return refuse(
          "reliable frames are dropped and duplicated at the sender only; ranks= selects the "
          "receivers");
    }
    const bool possible = rule.action == Action::drop ||
                          (rule.action == Action::duplicate && rule.packet == Packet::reliable);
    if (!possible) return refuse("this action applies to chunks only");
  }
  if (at_sender && rule.packet != Packet::reliable && !rule.ranks.empty()) {
    return refuse("a sender multicasts to all ranks; use source=, or receiver");
  }
  const bool anywhere = rule.action == Action::drop || rule.action == Action::duplicate;
  if (at_sender && !anywhere) return refuse("this action applies at a receiver only");
  const bool held = rule.action == Action::delay || rule.action == Action::reorder ||
                    (rule.action == Action::duplicate && !at_sender);
  if (!held && rule.by.count() != 0)
    return refuse("this action holds nothing back, so by= has no meaning");
  if (rule.action != Action::reorder && rule.distance != 0)
    return refuse("distance= applies to reorder only");
  if (rule.rate_ppm > 1'000'000) return refuse("a rate is at most 100%");
  return {};
}

std::string to_string(const FaultRule& rule) {
  std::string text = fmt::format("{} {} {}", kActions[static_cast<std::size_t>(rule.action)],
                                 kPlaces[static_cast<std::size_t>(rule.place)],
                                 kPackets[static_cast<std::size_t>(rule.packet)]);
  if (rule.rate_ppm != 1'000'000) text += " rate=" + print_rate(rule.rate_ppm);
  if (rule.epochs) text += " epoch=" + print_interval(*rule.epochs);
  if (rule.psns) text += " psn=" + print_interval(*rule.psns);
  if (rule.source) text += fmt::format(" source={}", index(*rule.source));
  for (std::size_t i = 0; i < rule.ranks.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? " ranks=" : ",", index(rule.ranks[i]));
  }
  if (rule.occurrences != 0) text += fmt::format(" occurrences={}", rule.occurrences);
  // If the text of a delay or reorder rule has no time, the parser uses a default that is not zero.
  // A time of zero must therefore be printed.
  const bool timed = rule.action == Action::delay || rule.action == Action::reorder;
  if (timed || rule.by.count() != 0) text += " by=" + print_time(rule.by);
  if (rule.action == Action::reorder) text += fmt::format(" distance={}", rule.distance);
  return text;
}

Result<FaultPlan> FaultPlan::parse(std::string_view text) {
  FaultPlan plan;
  for (const std::string_view statement : split(text, ";\n")) {
    if (statement.starts_with("seed=")) {
      if (store(plan.seed, whole_number<std::uint64_t>(statement.substr(5)))) continue;
      return failure(
          Code::invalid_argument,
          "the seed in statement \"{}\" of the fault plan is not a number: write it as in "
          "seed=7",
          statement);
    }
    auto rule = parse_rule(statement);
    if (!rule) return rule.status();
    plan.rules.push_back(std::move(*rule));
  }
  return plan;
}

std::string FaultPlan::to_string() const {
  std::string text = fmt::format("seed={}", seed);
  for (const FaultRule& rule : rules) text += "; " + fault::to_string(rule);
  return text;
}

bool FaultPlan::concerns(FaultSite place, Packet packet) const {
  return std::any_of(rules.begin(), rules.end(), [&](const FaultRule& rule) {
    return rule.place == place && rule.packet == packet;
  });
}

}  // namespace tutti::device::fault
