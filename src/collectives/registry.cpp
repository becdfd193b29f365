#include "collectives/registry.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "collectives/algorithms.hpp"
#include "collectives/arithmetic.hpp"

namespace tutti::collectives {

namespace {

using schedule::Collective;
using schedule::Purpose;

Status needs_even_ranks(const Purpose& purpose) {
  if (purpose.ranks % 2 == 0 || purpose.ranks == 1) return {};
  return failure(Code::invalid_argument,
                 "{} {} needs an even number of ranks, not {}: choose ring, or leave one rank out",
                 to_string(purpose.collective), purpose.algorithm, purpose.ranks);
}

Status needs_power_of_ports(const Purpose& purpose) {
  const std::uint32_t base = purpose.parameters.ports + 1;
  if (is_power_of(purpose.ranks, base)) return {};
  return failure(Code::invalid_argument,
                 "{} {} with {} ports needs a number of ranks that is a power of {}, not {}: "
                 "choose bruck, which takes any number of ranks, or another number of ports",
                 to_string(purpose.collective), purpose.algorithm, base - 1, base, purpose.ranks);
}

constexpr std::array kAlgorithms = {
    AlgorithmEntry{Collective::barrier, "dissemination", "ceil(log2 P) rounds, any P", kNothing,
                   barrier_dissemination, nullptr},
    AlgorithmEntry{Collective::barrier, "recursive_doubling",
                   "log2 P rounds between exchange partners, two more for other P", kNothing,
                   barrier_recursive_doubling, nullptr},
    AlgorithmEntry{Collective::barrier, "linear",
                   "one round, P-1 connections; with slot exchange one slot a rank", kNothing,
                   barrier_linear, nullptr},

    AlgorithmEntry{Collective::broadcast, "binomial", "ceil(log2 P) rounds: short messages",
                   kSegments, broadcast_binomial, nullptr},
    AlgorithmEntry{Collective::broadcast, "k_nomial", "ceil(log_k P) rounds, k-1 sends in each",
                   kRadix | kSegments, broadcast_k_nomial, nullptr},
    AlgorithmEntry{Collective::broadcast, "binary_tree",
                   "pipelined, two sends per rank and segment", kSegments, broadcast_binary_tree,
                   nullptr},
    AlgorithmEntry{Collective::broadcast, "double_tree",
                   "pipelined, two trees, each rank sends about what it receives", kSegments,
                   broadcast_double_tree, nullptr},
    AlgorithmEntry{Collective::broadcast, "chain",
                   "pipelined, P - 2 + segments rounds: long messages, few ranks", kSegments,
                   broadcast_chain, nullptr},
    AlgorithmEntry{Collective::broadcast, "scatter_allgather",
                   "binomial scatter, ring allgather: long messages", kNothing,
                   broadcast_scatter_allgather, nullptr},
    AlgorithmEntry{Collective::broadcast, "linear",
                   "one round, P-1 connections; with slot exchange short blocks are written once",
                   kNothing, broadcast_linear, nullptr},
    AlgorithmEntry{Collective::broadcast, "multicast", "sent once by the root", kReady | kHandshake,
                   broadcast_multicast, nullptr},

    AlgorithmEntry{Collective::allgather, "ring", "P-1 rounds, two connections: long messages",
                   kNothing, allgather_ring, nullptr},
    AlgorithmEntry{Collective::allgather, "bruck",
                   "ceil(log_{k+1} P) rounds, rotated at the end: short messages, any P", kPorts,
                   allgather_bruck, nullptr},
    AlgorithmEntry{Collective::allgather, "standard_exchange",
                   "log_{k+1} P rounds between exchange partners, P = (k+1)^n", kPorts,
                   allgather_standard_exchange, needs_power_of_ports},
    AlgorithmEntry{Collective::allgather, "recursive_doubling",
                   "log2 P rounds, two more for other P", kNothing, allgather_recursive_doubling,
                   nullptr},
    AlgorithmEntry{Collective::allgather, "neighbour_exchange",
                   "P/2 rounds, two connections, even P", kNothing, allgather_neighbour_exchange,
                   needs_even_ranks},
    AlgorithmEntry{Collective::allgather, "linear",
                   "one round, P-1 connections: few ranks; with slot exchange short blocks "
                   "are written once",
                   kNothing, allgather_linear, nullptr},
    AlgorithmEntry{Collective::allgather, "multicast", "each block sent once, in M chains",
                   kChains | kReady | kHandshake, allgather_multicast, nullptr},

    AlgorithmEntry{Collective::allgatherv, "ring", "P-1 rounds, two connections", kNothing,
                   allgather_ring, nullptr},
    AlgorithmEntry{Collective::allgatherv, "linear", "one round, P-1 connections", kNothing,
                   allgather_linear, nullptr},
    AlgorithmEntry{Collective::allgatherv, "multicast", "each block sent once, in M chains",
                   kChains | kReady | kHandshake, allgather_multicast, nullptr},

    AlgorithmEntry{Collective::gather, "binomial", "ceil(log2 P) rounds: short messages", kNothing,
                   gather_binomial, nullptr},
    AlgorithmEntry{Collective::gather, "linear", "one round: long messages", kNothing,
                   gather_linear, nullptr},

    AlgorithmEntry{Collective::scatter, "binomial", "ceil(log2 P) rounds: short messages", kNothing,
                   scatter_binomial, nullptr},
    AlgorithmEntry{Collective::scatter, "linear", "one round: long messages", kNothing,
                   scatter_linear, nullptr},

    AlgorithmEntry{Collective::alltoall, "pairwise", "P-1 rounds, one sender per receiver",
                   kNothing, alltoall_pairwise, nullptr},
    AlgorithmEntry{Collective::alltoall, "bruck", "ceil(log2 P) rounds, packed: short messages",
                   kNothing, alltoall_bruck, nullptr},
    AlgorithmEntry{Collective::alltoall, "linear", "one round, all at once", kNothing,
                   alltoall_linear, nullptr},

    AlgorithmEntry{Collective::reduce, "binomial",
                   "ceil(log2 P) rounds; in rank order only for root 0", kNothing, reduce_binomial,
                   nullptr},
    AlgorithmEntry{Collective::reduce, "binomial_ordered",
                   "in rank order, one more round for roots but 0", kNothing,
                   reduce_binomial_ordered, nullptr},
    AlgorithmEntry{Collective::reduce, "linear_keyed",
                   "one round, in rank order by keyed packets: few ranks", kNothing,
                   reduce_linear_keyed, nullptr},

    AlgorithmEntry{Collective::reduce_scatter, "ring", "P-1 rounds, two connections", kNothing,
                   reduce_scatter_ring, nullptr},
    AlgorithmEntry{Collective::reduce_scatter, "halving", "log2 P rounds, two more for other P",
                   kNothing, reduce_scatter_halving, nullptr},

    AlgorithmEntry{Collective::allreduce, "ring", "2 (P-1) rounds, fewest bytes: long messages",
                   kNothing, allreduce_ring, nullptr},
    AlgorithmEntry{Collective::allreduce, "recursive_doubling",
                   "log2 P rounds of the whole block, in rank order: short messages", kNothing,
                   allreduce_recursive_doubling, nullptr},
    AlgorithmEntry{Collective::allreduce, "rabenseifner",
                   "2 log2 P rounds, fewest bytes, in rank order", kNothing, allreduce_rabenseifner,
                   nullptr},
};

/// Largest number of segments. The bound keeps task lists short and the fractions of a block small;
/// more segments would only add messages.
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

std::span<const AlgorithmEntry> algorithms() { return kAlgorithms; }

std::span<const AlgorithmEntry> algorithms_of(Collective collective) {
  const auto is_of = [&](const AlgorithmEntry& entry) { return entry.collective == collective; };
  const auto first = std::find_if(kAlgorithms.begin(), kAlgorithms.end(), is_of);
  return {first, std::find_if_not(first, kAlgorithms.end(), is_of)};
}

std::string known_algorithms(Collective collective) {
  std::string names;
  for (const AlgorithmEntry& entry : algorithms_of(collective))
    names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
  return names;
}

Result<const AlgorithmEntry*> find_algorithm(Collective collective, std::string_view name) {
  // For Broadcast, the name "ring" stands for "chain": a Broadcast along the ring does not return
  // to the root.
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
