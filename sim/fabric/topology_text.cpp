// Reads topologies as text. Each line has one statement, and `#` begins a comment:
//
//   link 200Gbit/s 50ns [ber 1e-12]      kind of all links in the lines below
//   switch NAME...  [level N]            N: 1 for leaves; default: by distance from the leaves
//   hosts SWITCH N                       N hosts, numbered leaf by leaf as leaves are declared
//   cable SWITCH SWITCH [xN]             N parallel cables
//
// Instead, one statement after the `link` lines can describe the whole topology:
//
//   fat-tree down 18 12 up 1 6 [parallel 1 3] [hosts N]
//   dragonfly+ groups 4 leaves 2 spines 2 hosts 4 ports 2
#include <algorithm>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/number.hpp"
#include "sim/fabric/topology_builder.hpp"

namespace tutti::sim {
namespace {

using Words = std::vector<std::string_view>;

Words split(std::string_view line) {
  Words words;
  line = line.substr(0, line.find('#'));
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t first = line.find_first_not_of(" \t\r", at);
    if (first == std::string_view::npos) break;
    at = std::min(line.find_first_of(" \t\r", first), line.size());
    words.push_back(line.substr(first, at - first));
  }
  return words;
}

/// A unit of a quantity such as "200Gbit/s". If the text ends in `name`, the number before it is
/// multiplied by `factor`.
struct Unit {
  std::string_view name;
  double factor;
};
std::optional<double> quantity(std::string_view text, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (!text.ends_with(unit.name)) continue;
    const auto value = whole_number<double>(text.substr(0, text.size() - unit.name.size()));
    if (value) return *value * unit.factor;
  }
  return std::nullopt;
}
constexpr Unit kRates[] = {{"Tbit/s", 1e12}, {"Gbit/s", 1e9}, {"Mbit/s", 1e6}};
constexpr Unit kTimes[] = {{"ns", 1e3}, {"us", 1e6}, {"ps", 1}};

/// Reads words of the form `key number number ... key number ...`: returns the numbers after each
/// key.
std::optional<std::map<std::string_view, std::vector<std::uint32_t>>> numbers_by_key(
    std::span<const std::string_view> words, std::span<const std::string_view> keys) {
  std::map<std::string_view, std::vector<std::uint32_t>> values;
  std::vector<std::uint32_t>* list = nullptr;
  for (const std::string_view word : words) {
    if (std::find(keys.begin(), keys.end(), word) != keys.end()) {
      list = &values[word];
      continue;
    }
    const auto value = whole_number<std::uint32_t>(word);
    if (!value || list == nullptr) return std::nullopt;
    list->push_back(*value);
  }
  return values;
}

class Parser {
 public:
  explicit Parser(std::string_view name) : name_(name) {}

  Status line(std::string_view text) {
    ++line_;
    const Words words = split(text);
    if (words.empty()) return {};
    if (whole_) return wrong("the topology is complete already; remove this line");
    const std::string_view what = words[0];
    const std::span<const std::string_view> rest = std::span(words).subspan(1);
    if (what == "link") return link(rest);
    if (what == "switch") return switches(rest);
    if (what == "hosts") return hosts(rest);
    if (what == "cable") return cable(rest);
    if (what == "fat-tree") return fat_tree(rest);
    if (what == "dragonfly+") return dragonfly(rest);
    return wrong(
        fmt::format("unknown statement '{}': use link, switch, hosts, cable, fat-tree or "
                    "dragonfly+",
                    what));
  }

  Result<Topology> finish() {
    if (whole_) return std::move(*whole_);
    if (!std::any_of(switches_.begin(), switches_.end(), has_hosts)) {
      return wrong("the file ends without hosts; add 'hosts SWITCH N'");
    }
    number_switches();
    if (const Status levelled = find_levels(); !levelled) return levelled;
    TopologyBuilder builder;
    std::vector<std::uint32_t> hosts_of_leaf;
    for (const Switch& one : switches_) {
      if (has_hosts(one)) hosts_of_leaf.push_back(one.hosts);
    }
    builder.add_hosts(hosts_of_leaf, 0, builder.add_spec(host_spec_));
    builder.set_switches(static_cast<std::uint32_t>(switches_.size()));
    for (const Switch& one : switches_) builder.set_level(one.number, one.level);
    for (const Cable& one : cables_) {
      const std::uint8_t spec = builder.add_spec(one.spec);
      for (std::uint32_t i = 0; i < one.count; ++i) {
        builder.add_cable(switches_[one.a].number, switches_[one.b].number, spec);
      }
    }
    auto made = builder.finish_tables(std::vector<std::uint32_t>(switches_.size(), 0), 1);
    if (!made) return wrong(made.status().message());
    return made;
  }

 private:
  struct Switch {
    std::uint32_t hosts = 0;
    std::uint32_t level = 0;  ///< level of the switch; 0 if the text states none
    std::uint32_t number = 0;
  };
  struct Cable {
    std::size_t a;
    std::size_t b;
    std::uint32_t count;
    LinkSpec spec;
  };
  static bool has_hosts(const Switch& one) { return one.hosts > 0; }

  Status wrong(std::string_view what) const {
    return failure(Code::invalid_argument, "{}:{}: {}", name_, line_, what);
  }

  Status link(std::span<const std::string_view> words) {
    constexpr std::string_view kForm =
        "write 'link RATE LATENCY [ber RATE]', as in 'link "
        "200Gbit/s 50ns'";
    if (words.size() != 2 && !(words.size() == 4 && words[2] == "ber")) return wrong(kForm);
    const auto rate = quantity(words[0], kRates);
    const auto latency = quantity(words[1], kTimes);
    const auto errors = words.size() == 4 ? whole_number<double>(words[3]) : 0.0;
    if (!rate || !latency || !errors) return wrong(kForm);
    // These comparisons are also false for a value that is not a number.
    if (!(*rate >= 1e7 && *rate <= 1e13 && *latency >= 0 && *latency <= 1e12)) {
      return wrong("a link has 10Mbit/s to 10Tbit/s and up to 1000000us of latency");
    }
    if (!(*errors >= 0 && *errors < 1))
      return wrong("a bit-error rate lies in 0 .. 1, as in 1e-12");
    spec_ = {static_cast<std::uint64_t>(*rate), {static_cast<std::int64_t>(*latency)}, *errors};
    if (++specs_ > 200) return wrong("more than 200 link lines; use the same one for more cables");
    return {};
  }

  Status switches(std::span<const std::string_view> words) {
    std::uint32_t level = 0;
    if (words.size() >= 2 && words[words.size() - 2] == "level") {
      const auto given = whole_number<std::uint32_t>(words.back());
      if (!given || *given == 0 || *given > 6) return wrong("a level is 1 to 6");
      level = *given;
      words = words.first(words.size() - 2);
    }
    if (words.empty()) return wrong("write 'switch NAME... [level N]'");
    for (const std::string_view name : words) {
      if (!names_.emplace(name, switches_.size()).second) {
        return wrong(fmt::format("switch '{}' exists already; choose another name", name));
      }
      switches_.push_back({.hosts = 0, .level = level, .number = 0});
    }
    return {};
  }

  Result<std::size_t> known(std::string_view name) const {
    const auto found = names_.find(name);
    if (found == names_.end()) {
      return wrong(fmt::format("unknown switch '{0}'; declare it above with 'switch {0}'", name));
    }
    return found->second;
  }

  Status hosts(std::span<const std::string_view> words) {
    const auto count = words.size() == 2 ? whole_number<std::uint32_t>(words[1]) : std::nullopt;
    if (!count || *count == 0 || *count > 100'000) {
      return wrong("write 'hosts SWITCH N' with 1 to 100000 hosts");
    }
    const auto at = known(words[0]);
    if (!at) return at.status();
    if (switches_[*at].hosts != 0) {
      return wrong(fmt::format("switch '{}' has its hosts already; give one number", words[0]));
    }
    if (host_line_ && !(host_spec_ == spec_)) {
      return wrong("all hosts have the same kind of link; move 'hosts' lines behind one 'link'");
    }
    host_line_ = true;
    host_spec_ = spec_;
    switches_[*at].hosts = *count;
    return {};
  }

  Status cable(std::span<const std::string_view> words) {
    std::optional<std::uint32_t> count = 1;
    if (words.size() == 3 && words[2].starts_with('x')) {
      count = whole_number<std::uint32_t>(words[2].substr(1));
    } else if (words.size() != 2) {
      return wrong("write 'cable SWITCH SWITCH [xN]'");
    }
    if (!count || *count == 0 || *count > 1024) return wrong("write x1 to x1024 parallel cables");
    const auto a = known(words[0]);
    if (!a) return a.status();
    const auto b = known(words[1]);
    if (!b) return b.status();
    if (*a == *b) return wrong("a cable joins two switches; name another one");
    cables_.push_back({*a, *b, *count, spec_});
    return {};
  }

  Status alone() const {
    return switches_.empty() ? Status()
                             : wrong(
                                   "a topology is either listed or made by one statement; remove "
                                   "the switches above");
  }

  Status fat_tree(std::span<const std::string_view> words) {
    if (const Status first = alone(); !first) return first;
    constexpr std::string_view kKeys[] = {"down", "up", "parallel", "hosts"};
    const auto given = numbers_by_key(words, kKeys);
    if (!given || !given->contains("down") || !given->contains("up")) {
      return wrong("write 'fat-tree down N... up N... [parallel N...] [hosts N]'");
    }
    FatTreeShape shape;
    shape.down = given->at("down");
    shape.up = given->at("up");
    if (given->contains("parallel")) shape.parallel = given->at("parallel");
    if (given->contains("hosts") && given->at("hosts").size() == 1) {
      shape.hosts = given->at("hosts")[0];
    }
    shape.host_link = shape.trunk = spec_;
    return complete(Topology::fat_tree(shape));
  }

  Status dragonfly(std::span<const std::string_view> words) {
    if (const Status first = alone(); !first) return first;
    constexpr std::string_view kKeys[] = {"groups", "leaves", "spines", "hosts", "ports"};
    const auto given = numbers_by_key(words, kKeys);
    for (const std::string_view key : kKeys) {
      if (!given || !given->contains(key) || given->at(key).size() != 1) {
        return wrong("write 'dragonfly+ groups N leaves N spines N hosts N ports N'");
      }
    }
    DragonflyShape shape;
    shape.groups = given->at("groups")[0];
    shape.leaves_per_group = given->at("leaves")[0];
    shape.spines_per_group = given->at("spines")[0];
    shape.hosts_per_leaf = given->at("hosts")[0];
    shape.global_ports_per_spine = given->at("ports")[0];
    shape.host_link = shape.trunk = shape.global = spec_;
    return complete(Topology::dragonfly_plus(shape));
  }

  Status complete(Result<Topology> made) {
    if (!made) return wrong(made.status().message());
    whole_ = std::move(made.value());
    return {};
  }

  void number_switches() {
    std::uint32_t next = 0;
    for (const bool leaves : {true, false}) {
      for (Switch& one : switches_) {
        if (has_hosts(one) == leaves) one.number = next++;
      }
    }
  }

  /// Sets the level of each switch that has none: 1 if it has hosts, otherwise one more than the
  /// level of its lowest neighbour.
  Status find_levels() {
    for (Switch& one : switches_) {
      if (has_hosts(one) && one.level == 0) one.level = 1;
    }
    for (std::uint32_t below = 1; below < 6; ++below) {
      for (const Cable& cable : cables_) {
        for (const auto& [from, to] : {std::pair{cable.a, cable.b}, {cable.b, cable.a}}) {
          const bool next = switches_[from].level == below && switches_[to].level == 0;
          if (next) switches_[to].level = below + 1;
        }
      }
    }
    for (const auto& [name, at] : names_) {
      if (switches_[at].level == 0) {
        return wrong(fmt::format("switch '{}' is not connected; add a cable or remove it", name));
      }
    }
    return {};
  }

  std::string name_;
  std::uint32_t line_ = 0;
  LinkSpec spec_{};
  LinkSpec host_spec_{};
  bool host_line_ = false;
  std::uint32_t specs_ = 0;
  std::vector<Switch> switches_;
  std::map<std::string, std::size_t, std::less<>> names_;
  std::vector<Cable> cables_;
  std::optional<Topology> whole_;
};

}  // namespace

Result<Topology> Topology::parse(std::string_view text, std::string_view name) {
  Parser parser(name);
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (const Status read = parser.line(text.substr(at, end - at)); !read) return read;
    at = end + 1;
  }
  return parser.finish();
}

}  // namespace tutti::sim
