#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "base/error.hpp"
#include "sim/simulation/experiment.hpp"
#include "sim/simulation/scenario.hpp"

namespace tutti::simulation {

namespace {

using Words = std::vector<std::string_view>;

Words split(std::string_view text, std::string_view separators) {
  Words words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(separators, at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    at = end;
  }
  return words;
}

// ---- values -------------------------------------------------------------------------------------

template <typename T>
bool read(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}
bool read(std::string_view text, bool& value) {
  value = text == "yes";
  return value || text == "no";
}
struct TimeUnit {
  const char* name;
  std::int64_t nanoseconds;
};
constexpr std::array<TimeUnit, 4> kTimeUnits{
    {{"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}, {"ns", 1}}};

bool read(std::string_view text, Nanoseconds& value) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::int64_t count = 0;
  if (!read(text.substr(0, digits), count)) return false;
  for (const TimeUnit& unit : kTimeUnits) {
    if (text.substr(digits) != unit.name) continue;
    value = Nanoseconds(count * unit.nanoseconds);
    return count <= INT64_MAX / unit.nanoseconds;
  }
  return false;
}
bool read(std::string_view text, Rank& value) {
  std::uint32_t number = 0;
  const bool good = read(text, number);
  value = rank_of(number);
  return good;
}
bool read(std::string_view text, sim::Routing& value) {
  value = text == "adaptive"
              ? sim::Routing::adaptive
              : (text == "destination" ? sim::Routing::destination : sim::Routing::ecmp);
  return text == "adaptive" || text == "destination" || text == "ecmp";
}

bool read(std::string_view text, device::sim::ConnectionKind& value) {
  using enum device::sim::ConnectionKind;
  value = text == "software" ? software : nic;
  return text == "software" || text == "nic";
}

std::string write(device::sim::ConnectionKind value) {
  return value == device::sim::ConnectionKind::software ? "software" : "nic";
}
std::string write(std::uint32_t value) { return fmt::format("{}", value); }
std::string write(std::uint64_t value) { return fmt::format("{}", value); }
std::string write(bool value) { return value ? "yes" : "no"; }
std::string write(Nanoseconds value) {
  for (const TimeUnit& unit : kTimeUnits) {
    if (value.count() % unit.nanoseconds == 0) {
      return fmt::format("{}{}", value.count() / unit.nanoseconds, unit.name);
    }
  }
  return {};
}
std::string write(sim::Routing value) {
  return value == sim::Routing::ecmp
             ? "ecmp"
             : (value == sim::Routing::adaptive ? "adaptive" : "destination");
}

// ---- the words that are numbers -----------------------------------------------------------------

template <typename Visit>
void visit_fields(Visit&& field, Scenario*) {
  field("seed", &Scenario::seed);
  field("lossless", &Scenario::lossless);
  field("cut-through", &Scenario::cut_through);
  field("routing", &Scenario::routing);
  field("queue", &Scenario::queue_bytes);
  field("connections", &Scenario::connections);
  field("host-serviced", &Scenario::host_serviced);
  field("carry", &Scenario::carry_bytes);
  field("send-queue", &Scenario::send_queue_chunks);
  field("ranks-per-host", &Scenario::ranks_per_host);
  field("uc-fragments", &Scenario::uc_fragments);
  field("receive-workers", &Scenario::receive_workers);
  field("loss-ppm", &Scenario::loss_ppm);
  field("healed", &Scenario::healed);
  field("limit", &Scenario::limit);
}

template <typename Visit>
void visit_fields(Visit&& field, HostModel*) {
  field("poll", &HostModel::poll);
  field("per-chunk", &HostModel::chunk);
  field("per-message", &HostModel::message);
  field("jitter", &HostModel::jitter);
}

template <typename Visit>
void visit_fields(Visit&& field, ScenarioCommunicator*) {
  using C = ScenarioCommunicator;
  field("ranks", &C::ranks);
  field("rotated", &C::rotated);
  field("subgroups", &C::subgroups);
  field("chains", &C::chains);
  field("chunk", &C::chunk_bytes);
  field("staging", &C::staging_chunks);
  field("window", &C::window_bytes);
  field("pulses", &C::pulses_in_flight);
  field("always-barrier", &C::always_barrier);
  field("keep", &C::retain_bytes);
  field("epoch", &C::first_epoch);
  field("reorder", &C::reorder_delay);
  field("alpha", &C::alpha);
  field("patience", &C::patience);
  field("linger", &C::linger);
  field("peer-timeout", &C::peer_timeout);
  field("max-connections", &C::max_connections);
  field("big-endian", &C::big_endian);
  field("aggregator-slots", &C::aggregator_slots);
  field("ahead", &C::submitted_ahead);
  field("skew", &C::skew);
  field("compute", &C::compute);
}

/// Appends the fields that differ from their defaults as "name=value" words.
template <typename T>
void print_fields(const T& from, std::string& text) {
  const T usual{};
  visit_fields(
      [&](const char* name, auto member) {
        if (from.*member == usual.*member) return;
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, write(from.*member));
      },
      static_cast<T*>(nullptr));
}

/// Parses `value` into the field `name` of T; false if T has no such field or `value` is invalid.
template <typename T>
bool parse_field(std::string_view name, std::string_view value, T& to) {
  bool good = false;
  visit_fields(
      [&](const char* known, auto member) {
        if (name == known) good = read(value, to.*member);
      },
      static_cast<T*>(nullptr));
  return good;
}

// ---- the other words ----------------------------------------------------------------------------

constexpr std::array<const char*, 4> kPlacements{"packed", "even", "spread", "random"};

std::string print_shape(const TopologySpec& place) {
  std::string text;
  switch (place.shape) {
    case TopologySpec::Shape::single_switch:
      text = fmt::format("single:{}", place.hosts);
      break;
    case TopologySpec::Shape::two_levels:
      text = fmt::format("tree:{}x{}x{}", place.leaves, place.hosts, place.spines);
      break;
    case TopologySpec::Shape::cluster188:
      text = "cluster188";
      break;
    case TopologySpec::Shape::radix:
      text = fmt::format("radix:{}x{}", place.hosts, place.spines);
      if (place.leaves != 0) text += fmt::format("x{}", place.leaves);
      break;
  }
  return text;
}

std::string print_place(const TopologySpec& place) {
  std::string text = print_shape(place);
  const TopologySpec usual{};
  if (place.placement != usual.placement) {
    text += fmt::format(" placement={}", kPlacements[static_cast<std::size_t>(place.placement)]);
  }
  if (place.bits_per_second != usual.bits_per_second) {
    text += fmt::format(" rate={}", place.bits_per_second);
  }
  return text;
}

bool parse_topology(std::string_view value, TopologySpec& place) {
  // The name of a topology ends at the first colon and may contain an 'x'. Only the numbers after
  // the colon are split at each 'x'.
  const std::size_t colon = std::min(value.find(':'), value.size());
  Words words = split(value.substr(colon), ":x");
  words.insert(words.begin(), value.substr(0, colon));
  if (words[0] == "cluster188" && words.size() == 1) {
    place.shape = TopologySpec::Shape::cluster188;
    place.hosts = 18;
    return true;
  }
  if (words[0] == "single" && words.size() == 2) {
    place.shape = TopologySpec::Shape::single_switch;
    return read(words[1], place.hosts);
  }
  if (words[0] == "radix" && (words.size() == 3 || words.size() == 4)) {
    place.shape = TopologySpec::Shape::radix;
    if (words.size() == 4 && !read(words[3], place.leaves)) return false;
    return read(words[1], place.hosts) && read(words[2], place.spines);
  }
  place.shape = TopologySpec::Shape::two_levels;
  return words[0] == "tree" && words.size() == 4 && read(words[1], place.leaves) &&
         read(words[2], place.hosts) && read(words[3], place.spines);
}

bool parse_place_word(std::string_view name, std::string_view value, TopologySpec& place) {
  if (name == "topology") return parse_topology(value, place);
  if (name == "rate") return read(value, place.bits_per_second);
  if (name != "placement") return false;
  for (std::size_t i = 0; i < kPlacements.size(); ++i) {
    if (value != kPlacements[i]) continue;
    place.placement = static_cast<sim::PlacementKind>(i);
    return true;
  }
  return false;
}

std::string print_collective(const CollectiveSpec& one) {
  std::string text = to_string(one.kind);
  if (moves_no_data(one.kind)) return text;
  text += fmt::format(":{}", one.bytes);
  if (is_rooted(one.kind)) text += fmt::format(":{}", index(one.root));
  if (one.in_place) text += ":in-place";
  return text;
}

bool parse_collective(std::string_view word, CollectiveSpec& one) {
  const Words parts = split(word, ":");
  bool known = false;
  constexpr auto kKinds = static_cast<unsigned>(CollectiveKind::close) + 1;
  for (unsigned k = 0; k < kKinds; ++k) {
    const auto kind = static_cast<CollectiveKind>(k);
    if (parts.empty() || parts[0] != to_string(kind)) continue;
    one.kind = kind;
    known = true;
  }
  if (!known) return false;
  if (parts.size() > 1 && !read(parts[1], one.bytes)) return false;
  for (std::size_t i = 2; i < parts.size(); ++i) {
    if (parts[i] == "in-place") {
      one.in_place = true;
    } else if (!read(parts[i], one.root)) {
      return false;
    }
  }
  return moves_no_data(one.kind) || parts.size() > 1;
}

/// Parses the ends of a path such as "1>2".
template <typename End>
bool parse_ends(std::string_view word, End& from, End& to) {
  const Words ends = split(word, ">");
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  if (ends.size() != 2 || !read(ends[0], first) || !read(ends[1], second)) return false;
  from = End{first};
  to = End{second};
  return true;
}

bool parse_frame(const Words& words, FrameFault& frame) {
  if (words.size() != 4 || (words[1] != "drop" && words[1] != "duplicate")) return false;
  frame.duplicate = words[1] == "duplicate";
  return parse_ends(words[2], frame.from, frame.to) && words[3].starts_with('#') &&
         read(words[3].substr(1), frame.number);
}

constexpr std::array<std::string_view, 5> kForgeries = {"none", "bit", "counter", "address",
                                                        "reflection"};

bool parse_replay(const Words& words, device::sim::Replay& replay) {
  if (words.size() < 4 || !parse_ends(words[1], replay.from, replay.to) ||
      !words[2].starts_with('#') || !read(words[2].substr(1), replay.number)) {
    return false;
  }
  for (std::size_t i = 3; i < words.size(); ++i) {
    const auto value = words[i].substr(std::min(words[i].find('=') + 1, words[i].size()));
    const auto forgery = std::find(kForgeries.begin(), kForgeries.end(), value);
    if (words[i].starts_with("forged=") && forgery != kForgeries.end()) {
      replay.forgery = static_cast<device::sim::Forgery>(forgery - kForgeries.begin());
      continue;
    }
    const bool good = words[i].starts_with("after=")
                          ? read(value, replay.after)
                          : words[i].starts_with("every=") && read(value, replay.every);
    if (!good) return false;
  }
  return true;
}

bool parse_instant(std::string_view text, Instant& at) {
  Nanoseconds time{};
  if (!read(text, time)) return false;
  at = Instant{time.count()};
  return true;
}

bool parse_path(const Words& words, device::sim::PathFault& fault) {
  if (words.size() < 2 || !parse_ends(words[1], fault.from, fault.to)) return false;
  for (std::size_t i = 2; i < words.size(); ++i) {
    const auto value = words[i].substr(std::min(words[i].find('=') + 1, words[i].size()));
    const bool good = words[i].starts_with("at=") ? parse_instant(value, fault.at)
                      : words[i].starts_with("for=")
                          ? read(value, fault.length)
                          : words[i].starts_with("above=") && read(value, fault.above_bytes);
    if (!good) return false;
  }
  return true;
}

bool parse_group_fault(const Words& words, device::sim::GroupFault& fault) {
  using Kind = device::sim::GroupFault::Kind;
  std::uint32_t host = 0;
  if (words.size() < 3 || !read(words[1], host)) return false;
  fault.host = sim::HostId{host};
  fault.kind = words[2] == "blocked" ? Kind::blocked : Kind::expired;
  if (words[2] != "blocked" && words[2] != "expired") return false;
  for (std::size_t i = 3; i < words.size(); ++i) {
    const auto value = words[i].substr(std::min(words[i].find('=') + 1, words[i].size()));
    const bool good = words[i].starts_with("at=")
                          ? parse_instant(value, fault.at)
                          : words[i].starts_with("for=") && read(value, fault.length);
    if (!good) return false;
  }
  return true;
}

/// Parses a line such as "pause 2 at=1ms for=3ms" into its number, instant and duration.
bool parse_timed(const Words& words, std::uint32_t& which, Instant& at, Nanoseconds& length,
                 bool& one_way) {
  if (words.size() < 3 || !read(words[1], which)) return false;
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "one-way") {
      one_way = true;
    } else if (words[i].starts_with("at=")) {
      if (!parse_instant(words[i].substr(3), at)) return false;
    } else if (!words[i].starts_with("for=") || !read(words[i].substr(4), length)) {
      return false;
    }
  }
  return true;
}

/// Parses a scenario line by line.
class ScenarioReader {
 public:
  explicit ScenarioReader(Scenario& scenario) : scenario_(scenario) {}

  bool line(std::string_view text) {
    const Words words = split(text, " \t\r");
    if (words.empty() || words[0].starts_with('#')) return true;
    if (words[0] == "communicator") {
      scenario_.communicators.emplace_back();
      return fields(words, 1);
    }
    if (words[0] == "run") return run(words);
    if (words[0] == "fault") return fault(text.substr(text.find("fault") + 5));
    if (words[0] == "frame") {
      FrameFault frame;
      if (scenario_.communicators.empty() || !parse_frame(words, frame)) return false;
      scenario_.communicators.back().frames.push_back(frame);
      return true;
    }
    if (words[0] == "path") {
      return parse_path(words, scenario_.path_faults.emplace_back());
    }
    if (words[0] == "replay") return parse_replay(words, scenario_.replays.emplace_back());
    if (words[0] == "multicast")
      return parse_group_fault(words, scenario_.group_faults.emplace_back());
    if (words[0] == "lose") return lose(words);
    if (words[0] == "pause" || words[0] == "death" || words[0] == "outage") return timed(words);
    return fields(words, 0);
  }

 private:
  bool fields(const Words& words, std::size_t first) {
    for (std::size_t i = first; i < words.size(); ++i) {
      const std::size_t equals = words[i].find('=');
      if (equals == std::string_view::npos) return false;
      const auto name = words[i].substr(0, equals);
      const auto value = words[i].substr(equals + 1);
      const bool of_communicator =
          first == 1 && parse_field(name, value, scenario_.communicators.back());
      const bool of_world = first == 0 && (parse_field(name, value, scenario_) ||
                                           parse_field(name, value, scenario_.host) ||
                                           parse_place_word(name, value, scenario_.place));
      if (!of_communicator && !of_world) return false;
    }
    return true;
  }
  bool run(const Words& words) {
    if (scenario_.communicators.empty()) return false;
    for (std::size_t i = 1; i < words.size(); ++i) {
      CollectiveSpec one;
      if (!parse_collective(words[i], one)) return false;
      scenario_.communicators.back().collectives.push_back(one);
    }
    return true;
  }
  bool fault(std::string_view text) {
    if (scenario_.communicators.empty()) return false;
    auto plan = device::fault::FaultPlan::parse(text);
    if (!plan) return false;
    device::fault::FaultPlan& faults = scenario_.communicators.back().faults;
    faults.rules.insert(faults.rules.end(), plan->rules.begin(), plan->rules.end());
    if (text.find("seed=") != std::string_view::npos) faults.seed = plan->seed;
    return true;
  }
  bool lose(const Words& words) {
    std::uint32_t link = 0;
    FabricLoss loss;
    if (words.size() != 3 || !read(words[1], link) || !read(words[2], loss.identity)) return false;
    loss.link = static_cast<sim::LinkId>(link);
    scenario_.toggled_losses.push_back(loss);
    return true;
  }
  bool timed(const Words& words) {
    std::uint32_t which = 0;
    Instant at{};
    Nanoseconds length{};
    bool one_way = false;
    if (!parse_timed(words, which, at, length, one_way)) return false;
    const sim::HostId host{which};
    if (words[0] == "pause") scenario_.pauses.push_back({host, at, length});
    if (words[0] == "death") scenario_.deaths.push_back({host, at});
    if (words[0] == "outage") {
      scenario_.outages.push_back({static_cast<sim::LinkId>(which), at, length, one_way});
    }
    return true;
  }

  Scenario& scenario_;
};

std::string print_communicator(const ScenarioCommunicator& one) {
  std::string fields;
  print_fields(one, fields);
  std::string text = fmt::format("communicator {}\n", fields);
  if (!one.collectives.empty()) {
    text += "run";
    for (const CollectiveSpec& collective : one.collectives) {
      text += fmt::format(" {}", print_collective(collective));
    }
    text += "\n";
  }
  if (!one.faults.rules.empty()) {
    text += fmt::format("fault seed={}", one.faults.seed);
    for (const auto& rule : one.faults.rules)
      text += fmt::format("; {}", device::fault::to_string(rule));
    text += "\n";
  }
  for (const FrameFault& frame : one.frames) {
    text += fmt::format("frame {} {}>{} #{}\n", frame.duplicate ? "duplicate" : "drop",
                        index(frame.from), index(frame.to), frame.number);
  }
  return text;
}

}  // namespace

std::string Scenario::to_string() const {
  std::string fields;
  print_fields(*this, fields);
  print_fields(host, fields);
  std::string text =
      fmt::format("{}{}topology={}\n", fields, fields.empty() ? "" : " ", print_place(place));
  for (const ScenarioCommunicator& one : communicators) text += print_communicator(one);
  const auto at = [](Instant instant) { return write(Nanoseconds(instant.nanoseconds)); };
  for (const Pause& one : pauses) {
    text +=
        fmt::format("pause {} at={} for={}\n", index(one.host), at(one.from), write(one.length));
  }
  for (const Death& one : deaths) {
    text += fmt::format("death {} at={}\n", index(one.host), at(one.at));
  }
  for (const Outage& one : outages) {
    text += fmt::format("outage {} at={} for={}{}\n", index(one.link), at(one.from),
                        write(one.length), one.one_way ? " one-way" : "");
  }
  for (const device::sim::PathFault& one : path_faults) {
    text += fmt::format("path {}>{} at={}", index(one.from), index(one.to), at(one.at));
    if (one.length.count() != 0) text += fmt::format(" for={}", write(one.length));
    text += one.above_bytes == 0 ? "\n" : fmt::format(" above={}\n", one.above_bytes);
  }
  for (const device::sim::Replay& one : replays) {
    text += fmt::format("replay {}>{} #{} after={}", index(one.from), index(one.to), one.number,
                        write(one.after));
    if (one.every.count() != 0) text += " every=" + write(one.every);
    if (one.forgery != device::sim::Forgery::none) {
      text += fmt::format(" forged={}", kForgeries[static_cast<std::size_t>(one.forgery)]);
    }
    text += "\n";
  }
  for (const device::sim::GroupFault& one : group_faults) {
    const bool blocked = one.kind == device::sim::GroupFault::Kind::blocked;
    text += fmt::format("multicast {} {} at={}", index(one.host), blocked ? "blocked" : "expired",
                        at(one.at));
    text += one.length.count() == 0 ? "\n" : fmt::format(" for={}\n", write(one.length));
  }
  for (const FabricLoss& one : toggled_losses) {
    text += fmt::format("lose {} {}\n", index(one.link), one.identity);
  }
  return text;
}

Result<Scenario> Scenario::parse(std::string_view text) {
  Scenario scenario;
  ScenarioReader reader(scenario);
  std::uint32_t number = 0;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (!reader.line(text.substr(at, end - at))) {
      return failure(
          Code::invalid_argument,
          "line {} of the scenario is invalid: \"{}\": use one of the forms 'name=value ...', "
          "'communicator name=value ...', 'run allgather:BYTES broadcast:BYTES:ROOT ...', "
          "'fault RULES', 'frame drop|duplicate FROM>TO #N', 'pause HOST at=1ms for=1ms', "
          "'death HOST at=1ms', 'outage LINK at=1ms for=1ms [one-way]', "
          "'path FROM>TO at=1ms [for=1ms] [above=BYTES]', 'replay FROM>TO #N after=1ms "
          "[every=1ms] [forged=bit|counter|address|reflection]', 'multicast HOST "
          "expired|blocked at=1ms [for=1ms]' and 'lose LINK IDENTITY'",
          number + 1, text.substr(at, end - at));
    }
    at = end + 1;
  }
  if (scenario.communicators.empty()) {
    return failure(Code::invalid_argument,
                   "the scenario has no communicator: add a communicator line");
  }
  return scenario;
}

std::string to_string(const TopologySpec& place) { return print_shape(place); }

Result<TopologySpec> parse_place(std::string_view text) {
  TopologySpec place;
  if (parse_topology(text, place)) return place;
  return failure(Code::invalid_argument,
                 "topology \"{}\" is not valid: use single:HOSTS, tree:LEAVESxHOSTSxSPINES, "
                 "cluster188 or radix:RADIXxLEVELS[xHOSTS]",
                 text);
}

Result<sim::Topology> make_topology(const TopologySpec& place) {
  const sim::LinkSpec spec{.bits_per_second = place.bits_per_second};
  if (place.shape == TopologySpec::Shape::single_switch) {
    return sim::Topology::single_switch(place.hosts, spec);
  }
  if (place.shape == TopologySpec::Shape::cluster188) return sim::Topology::cluster188(spec);
  sim::FatTreeShape shape;
  shape.host_link = shape.trunk = spec;
  if (place.shape == TopologySpec::Shape::two_levels) {
    shape.down = {place.hosts, place.leaves};
    shape.up = {1, place.spines};
  } else {
    // A switch below the top level has half of its ports up and half of them down. A switch at the
    // top level has all ports down.
    const std::uint32_t half = place.hosts / 2;
    shape.down.assign(place.spines, half);
    shape.up.assign(place.spines, half);
    if (place.spines > 0) shape.down.back() = place.hosts;
    if (place.spines > 0) shape.up.front() = 1;
    shape.hosts = place.leaves;
  }
  return sim::Topology::fat_tree(shape);
}

}  // namespace tutti::simulation
