#include "collectives/registry.hpp"

#include <algorithm>
#include <tuple>

#include "base/error.hpp"

namespace tutti::collectives {

namespace {

const std::vector<AlgorithmEntry>& table() {
  static const std::vector<AlgorithmEntry> entries = [] {
    std::vector<AlgorithmEntry> all;
    for (const auto entries_of_file : algorithm_files()) {
      const AlgorithmEntries some = entries_of_file();
      all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end(), [](const AlgorithmEntry& a, const AlgorithmEntry& b) {
      return std::tie(a.collective, a.name) < std::tie(b.collective, b.name);
    });
    return all;
  }();
  return entries;
}

/// An algorithm may use at most this many segments. The bound keeps task lists short and the
/// denominators of fractions (buffer_slice.hpp) small.
constexpr std::uint32_t kMaxSegments = 4096;

Status check_parameters(const Purpose& purpose) {
  const schedule::Parameters& p = purpose.parameters;
  const auto wrong = [](std::string_view name, std::uint32_t value, std::string_view range) {
    return failure(Code::invalid_argument, "{} is {}, which is out of range: choose {}", name,
                   value, range);
  };
  if (purpose.ranks == 0) return wrong("the number of ranks", 0, "1 or more");
  if (index(purpose.root) >= purpose.ranks)
    return failure(Code::invalid_argument, "root {} does not exist among {} ranks: choose 0 to {}",
                   index(purpose.root), purpose.ranks, purpose.ranks - 1);
  if (!has_root(purpose.collective) && index(purpose.root) != 0)
    return failure(Code::invalid_argument, "{} has no root, but root {} is given: use root 0",
                   to_string(purpose.collective), index(purpose.root));
  if (p.ports == 0 || p.ports > 64) return wrong("ports", p.ports, "1 to 64");
  if (p.radix < 2 || p.radix > 64) return wrong("radix", p.radix, "2 to 64");
  if (p.segments == 0 || p.segments > kMaxSegments)
    return wrong("segments", p.segments, fmt::format("1 to {}", kMaxSegments));
  if (p.chains == 0) return wrong("chains", p.chains, "1 or more");
  return {};
}

}  // namespace

std::span<const AlgorithmEntry> algorithms() { return table(); }

std::span<const AlgorithmEntry> algorithms_of(Collective collective) {
  const auto is_of = [&](const AlgorithmEntry& entry) { return entry.collective == collective; };
  const auto first = std::find_if(table().begin(), table().end(), is_of);
  return {first, std::find_if_not(first, table().end(), is_of)};
}

std::string known_algorithms(Collective collective) {
  std::string names;
  for (const AlgorithmEntry& entry : algorithms_of(collective))
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  return names;
}

Result<const AlgorithmEntry*> find_algorithm(Collective collective, std::string_view name) {
  // For Broadcast, the name "ring" means "chain", because a Broadcast along the ring does not
  // return to the root.
  if (collective == Collective::broadcast && name == "ring") name = "chain";
  for (const AlgorithmEntry& entry : algorithms_of(collective)) {
    if (entry.name == name) return &entry;
  }
  return failure(Code::invalid_argument, "{} has no algorithm '{}': choose one of {}",
                 to_string(collective), name, known_algorithms(collective));
}

Result<schedule::Schedule> build(const Purpose& purpose) {
  const Result<const AlgorithmEntry*> entry = find_algorithm(purpose.collective, purpose.algorithm);
  if (!entry) return entry.status();
  if (Status checked = check_parameters(purpose); !checked) return checked;
  if ((*entry)->restriction != nullptr) {
    if (Status served = (*entry)->restriction(purpose); !served) return served;
  }
  if (index(purpose.rank) >= purpose.ranks)
    return failure(Code::invalid_argument, "rank {} does not exist among {} ranks: choose 0 to {}",
                   index(purpose.rank), purpose.ranks, purpose.ranks - 1);
  schedule::Builder builder(purpose);
  (*entry)->write(builder);
  return builder.finish();
}

Result<std::vector<schedule::Schedule>> build_all(const Purpose& purpose) {
  std::vector<schedule::Schedule> schedules;
  Purpose one = purpose;
  for (std::uint32_t r = 0; r < purpose.ranks; ++r) {
    one.rank = rank_of(r);
    Result<schedule::Schedule> built = build(one);
    if (!built) return built.status();
    schedules.push_back(std::move(*built));
  }
  if (schedules.empty()) return build(purpose).status();
  return schedules;
}

}  // namespace tutti::collectives
