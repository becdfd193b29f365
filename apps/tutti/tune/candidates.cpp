#include "tune/candidates.hpp"

#include "collectives/registry.hpp"
#include "schedule/schedule.hpp"

namespace tutti::app {
namespace {

constexpr std::uint32_t kPortsTried[] = {1, 2, 3};
constexpr std::uint32_t kRadicesTried[] = {2, 4, 8};

/// The parameters to try with an algorithm, in ascending order. No value follows the first one with
/// which a rank reaches all others in one step, because larger values have the same effect.
std::vector<schedule::Parameters> variants(const collectives::AlgorithmEntry& entry,
                                           std::uint32_t ranks) {
  std::vector<schedule::Parameters> list;
  const auto vary = [&](std::uint32_t schedule::Parameters::*field, const auto& values,
                        std::uint32_t reaches_all) {
    for (const std::uint32_t value : values) {
      schedule::Parameters parameters;
      parameters.*field = value;
      list.push_back(parameters);
      if (value >= reaches_all) break;
    }
  };
  if ((entry.heeds & collectives::kPorts) != 0) {
    vary(&schedule::Parameters::ports, kPortsTried, ranks - 1);
  } else if ((entry.heeds & collectives::kRadix) != 0) {
    vary(&schedule::Parameters::radix, kRadicesTried, ranks);
  } else {
    list.emplace_back();
  }
  return list;
}

}  // namespace

std::vector<collectives::Choice> candidates(Operation operation, std::uint32_t ranks) {
  std::vector<collectives::Choice> list;
  for (const collectives::AlgorithmEntry& entry : collectives::algorithms_of(operation)) {
    for (const schedule::Parameters& parameters : variants(entry, ranks)) {
      const auto built = collectives::build({.collective = operation,
                                             .algorithm = std::string(entry.name),
                                             .ranks = ranks,
                                             .rank = Rank{0},
                                             .root = Rank{0},
                                             .parameters = parameters});
      if (!built) continue;
      list.push_back(
          {.algorithm = std::string(entry.name), .parameters = parameters, .reason = "measured"});
    }
  }
  return list;
}

}  // namespace tutti::app
