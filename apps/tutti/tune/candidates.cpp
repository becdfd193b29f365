#include "tune/candidates.hpp"

#include "collectives/registry.hpp"
#include "schedule/schedule.hpp"

namespace tutti::app {
namespace {

constexpr std::uint32_t kPortsTried[] = {1, 2, 3};
constexpr std::uint32_t kRadicesTried[] = {2, 4, 8};

/// The parameters with which an algorithm is tried: the smallest value of a list, and each larger
/// value that is less than the number of ranks. Values from the number of ranks upwards have the
/// same effect.
std::vector<schedule::Parameters> variants(const collectives::AlgorithmEntry& entry,
                                           std::uint32_t ranks) {
  std::vector<schedule::Parameters> list;
  const auto vary = [&](std::uint32_t schedule::Parameters::*field, const auto& values) {
    for (const std::uint32_t value : values) {
      if (value > values[0] && value >= ranks) continue;
      schedule::Parameters parameters;
      parameters.*field = value;
      list.push_back(parameters);
    }
  };
  if ((entry.heeds & collectives::kPorts) != 0) {
    vary(&schedule::Parameters::ports, kPortsTried);
  } else if ((entry.heeds & collectives::kRadix) != 0) {
    vary(&schedule::Parameters::radix, kRadicesTried);
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
