#include "studies/traffic/plan_catalog.hpp"

#include <string>

#include "base/error.hpp"
#include "collectives/registry.hpp"
#include "studies/traffic/schedule_plan.hpp"

namespace tutti::sim {
namespace {

// A pipelined chain has one piece for each packet of 4 KiB.
std::uint32_t segments_of(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + 4095) / 4096 + (bytes == 0 ? 1 : 0));
}

constexpr NamedPlan kCatalogue[] = {
    {"broadcast_multicast", plan_broadcast_multicast},
    {"broadcast_linear", plan_broadcast_linear},
    {"broadcast_chain", [](std::uint32_t ranks,
                           std::uint64_t bytes) { return plan_broadcast_chain(ranks, bytes, 1); }},
    {"broadcast_chain_pipelined",
     [](std::uint32_t ranks, std::uint64_t bytes) {
       return plan_broadcast_chain(ranks, bytes, segments_of(bytes));
     }},
    {"broadcast_binomial",
     [](std::uint32_t ranks, std::uint64_t bytes) {
       return plan_broadcast_k_nomial(ranks, bytes, 2);
     }},
    {"broadcast_4_nomial",
     [](std::uint32_t ranks, std::uint64_t bytes) {
       return plan_broadcast_k_nomial(ranks, bytes, 4);
     }},
    {"broadcast_8_nomial",
     [](std::uint32_t ranks, std::uint64_t bytes) {
       return plan_broadcast_k_nomial(ranks, bytes, 8);
     }},
    {"broadcast_binary_heap",
     [](std::uint32_t ranks, std::uint64_t bytes) {
       return plan_broadcast_binary_heap(ranks, bytes);
     }},
    {"broadcast_binary_in_order",
     [](std::uint32_t ranks, std::uint64_t bytes) {
       return plan_broadcast_binary_in_order(ranks, bytes);
     }},
    {"broadcast_binary_pipelined",
     [](std::uint32_t ranks, std::uint64_t bytes) {
       return plan_broadcast_binary_heap(ranks, bytes, segments_of(bytes));
     }},
    {"broadcast_scatter_ring", plan_broadcast_scatter_ring},
    {"allgather_multicast",
     [](std::uint32_t ranks, std::uint64_t bytes) {
       return plan_allgather_multicast(ranks, bytes, 1);
     }},
    {"allgather_ring", plan_allgather_ring},
    {"allgather_linear", plan_allgather_linear},
    {"allgather_recursive_doubling", plan_allgather_recursive_doubling},
    {"allgather_bruck", plan_allgather_bruck},
    {"reduce_scatter_ring", plan_reduce_scatter_ring},
    {"reduce_scatter_in_network", plan_reduce_scatter_in_network},
    {"rings_together", plan_rings_together},
    {"offloaded_together", plan_offloaded_together},
};

/// The plan of an algorithm of the library, with the default root and parameters.
Result<MessagePlan> plan_of_library(std::string_view collective, std::string_view algorithm,
                                    std::uint32_t ranks, std::uint64_t bytes) {
  const auto known = schedule::collective_named(collective);
  if (!known) return known.status();
  const auto schedules = collectives::build_all(
      {.collective = *known, .algorithm = std::string(algorithm), .ranks = ranks});
  if (!schedules) return schedules.status();
  return traffic::plan_of(*schedules, bytes);
}

}  // namespace

std::span<const NamedPlan> plan_catalog() { return kCatalogue; }

Result<MessagePlan> plan_by_name(std::string_view name, std::uint32_t ranks, std::uint64_t bytes) {
  if (const std::size_t slash = name.find('/'); slash != std::string_view::npos) {
    return plan_of_library(name.substr(0, slash), name.substr(slash + 1), ranks, bytes);
  }
  std::string names;
  for (const NamedPlan& one : kCatalogue) {
    if (one.name == name) return one.make(ranks, bytes);
    names += std::string(one.name) + ", ";
  }
  return failure(Code::invalid_argument,
                 "algorithm '{}' is not known: use one of {}, or COLLECTIVE/ALGORITHM for an "
                 "algorithm of the library, such as allreduce/ring",
                 name, names.substr(0, names.size() - 2));
}

}  // namespace tutti::sim
