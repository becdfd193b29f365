// Lists the cases in which the tests run an algorithm: all its parameters, with several roots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "collectives/registry.hpp"

namespace tutti::collectives {

/// The text that GoogleTest prints for an algorithm.
inline void PrintTo(const AlgorithmEntry& entry, std::ostream* out) {
  *out << to_string(entry.collective) << " " << entry.name;
}

}  // namespace tutti::collectives

namespace tutti::schedule {

/// The first, the middle and the last root; only 0 if the collective has no root.
inline std::vector<std::uint32_t> roots_of(Collective collective, std::uint32_t ranks) {
  if (!has_root(collective)) return {0};
  std::vector<std::uint32_t> roots = {0, ranks / 2, ranks - 1};
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  return roots;
}

/// The parameters with which an algorithm is tested.
inline std::vector<Parameters> parameters_of(const collectives::AlgorithmEntry& entry,
                                             std::uint32_t ranks) {
  std::vector<Parameters> all = {Parameters()};
  const auto vary = [&](std::uint32_t bit, auto field, const auto& values) {
    if ((entry.heeds & bit) == 0) return;
    std::vector<Parameters> varied;
    for (const Parameters& base : all) {
      for (const auto value : values) {
        varied.push_back(base);
        varied.back().*field = value;
      }
    }
    all = varied;
  };
  const std::vector<std::uint32_t> chains = {1, 3, ranks};
  vary(collectives::kPorts, &Parameters::ports, std::vector<std::uint32_t>{1, 2, 3});
  vary(collectives::kRadix, &Parameters::radix, std::vector<std::uint32_t>{2, 3, 8});
  vary(collectives::kSegments, &Parameters::segments, std::vector<std::uint32_t>{1, 5});
  vary(collectives::kChains, &Parameters::chains, chains);
  vary(collectives::kReady, &Parameters::ready, std::vector<bool>{false, true});
  vary(collectives::kHandshake, &Parameters::handshake, std::vector<bool>{false, true});
  return all;
}

/// Returns a Purpose for each combination of parameters and root that the algorithm supports with
/// this number of ranks.
inline std::vector<Purpose> purposes_of(const collectives::AlgorithmEntry& entry,
                                        std::uint32_t ranks) {
  std::vector<Purpose> purposes;
  for (const Parameters& parameters : parameters_of(entry, ranks)) {
    for (std::uint32_t root : roots_of(entry.collective, ranks)) {
      Purpose purpose{entry.collective, std::string(entry.name), ranks,
                      rank_of(0),       rank_of(root),           parameters};
      if (entry.restriction == nullptr || entry.restriction(purpose).ok())
        purposes.push_back(purpose);
    }
  }
  return purposes;
}

/// The name of an algorithm's test, such as "allgather_bruck".
inline std::string test_name(const collectives::AlgorithmEntry& entry) {
  return std::string(to_string(entry.collective)) + "_" + std::string(entry.name);
}

/// Describes a case in the message of a failed check.
inline std::string case_name(const Purpose& purpose) {
  const Parameters& p = purpose.parameters;
  return std::string(to_string(purpose.collective)) + " " + purpose.algorithm + ", " +
         std::to_string(purpose.ranks) + " ranks, root " + std::to_string(index(purpose.root)) +
         ", ports " + std::to_string(p.ports) + ", radix " + std::to_string(p.radix) +
         ", segments " + std::to_string(p.segments) + ", chains " + std::to_string(p.chains) +
         (p.ready ? ", ready" : "") + (p.handshake ? ", handshake" : "");
}

}  // namespace tutti::schedule
