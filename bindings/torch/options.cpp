#include "options.hpp"

#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include "failure.hpp"

namespace tutti::torch_backend {
namespace {

using Fields = tutti_comm_options_t;

constexpr std::pair<const char*, const char * Fields::*> kTexts[] = {
    {"interface", &Fields::interface_name}, {"device", &Fields::device_name},
    {"multicast", &Fields::multicast},      {"hierarchy", &Fields::hierarchy},
    {"aggregators", &Fields::aggregators},  {"traffic_class", &Fields::traffic_class},
};

constexpr std::pair<const char*, std::uint32_t Fields::*> kNumbers[] = {
    {"ipv6", &Fields::ipv6},
    {"subgroups", &Fields::subgroups},
    {"chains", &Fields::chains},
    {"chunk_bytes", &Fields::chunk_bytes},
    {"receive_workers", &Fields::receive_workers},
    {"aggregator_fallback", &Fields::aggregator_fallback},
    {"require_multicast", &Fields::require_multicast},
    {"multicast_hops", &Fields::multicast_hops},
    {"max_connections", &Fields::max_connections},
    {"no_authentication", &Fields::no_authentication},
    {"always_barrier", &Fields::always_barrier},
};

constexpr std::pair<const char*, std::uint64_t Fields::*> kLongNumbers[] = {
    {"window_bytes", &Fields::window_bytes},
    {"segment_bytes", &Fields::segment_bytes},
    {"keep_bytes", &Fields::keep_bytes},
};

constexpr std::pair<const char*, std::int64_t Fields::*> kDurations[] = {
    {"peer_timeout_ns", &Fields::peer_timeout_ns},
    {"create_timeout_ns", &Fields::create_timeout_ns},
};

template <typename Number>
Number number(const std::string& name, const std::string& text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    raise("option ", name, " is '", text, "': use a whole number from 0 to ",
          std::numeric_limits<Number>::max());
  }
  return value;
}

template <typename Table, typename Store>
bool find(const Table& table, const std::string& name, const Store& store) {
  for (const auto& [known, field] : table) {
    if (name != known) continue;
    store(field);
    return true;
  }
  return false;
}

bool set(Fields& fields, const std::string& name, const std::string& text) {
  return find(kTexts, name, [&](auto field) { fields.*field = text.c_str(); }) ||
         find(kNumbers, name,
              [&](auto field) { fields.*field = number<std::uint32_t>(name, text); }) ||
         find(kLongNumbers, name,
              [&](auto field) { fields.*field = number<std::uint64_t>(name, text); }) ||
         find(kDurations, name,
              [&](auto field) { fields.*field = number<std::int64_t>(name, text); });
}

std::int32_t priority_of(const std::string& text) {
  if (text == "low") return TUTTI_PRIORITY_LOW;
  if (text == "high") return TUTTI_PRIORITY_HIGH;
  if (text != "normal") raise("option priority is '", text, "': use low, normal or high");
  return TUTTI_PRIORITY_NORMAL;
}

std::string known_names() {
  std::string names = "priority";
  const auto add = [&](const auto& table) {
    for (const auto& entry : table) names += (names.empty() ? "" : ", ") + std::string(entry.first);
  };
  add(kTexts), add(kNumbers), add(kLongNumbers), add(kDurations);
  return names;
}

}  // namespace

Options::Options(std::map<std::string, std::string> values) : values_(std::move(values)) {
  if (const auto given = values_.extract("priority")) priority_ = priority_of(given.mapped());
  Fields fields = TUTTI_COMM_OPTIONS_INIT;
  for (const auto& [name, text] : values_) {
    if (!set(fields, name, text)) raise("option ", name, " does not exist: use ", known_names());
  }
}

tutti_comm_options_t Options::communicator() const {
  Fields fields = TUTTI_COMM_OPTIONS_INIT;
  for (const auto& [name, text] : values_) set(fields, name, text);
  return fields;
}

}  // namespace tutti::torch_backend
