// The functions that write the schedules of the algorithms, each in a file of its own; one call
// writes the tasks of one rank. The registry (registry.hpp) lists them with their restrictions and
// parameters.
#pragma once

#include "schedule/builder.hpp"

namespace tutti::collectives {

using schedule::Builder;

void allgather_bruck(Builder& b);
void allgather_linear(Builder& b);
void allgather_multicast(Builder& b);
void allgather_neighbour_exchange(Builder& b);
void allgather_recursive_doubling(Builder& b);
void allgather_ring(Builder& b);
void allgather_standard_exchange(Builder& b);

void allreduce_rabenseifner(Builder& b);
void allreduce_recursive_doubling(Builder& b);
void allreduce_ring(Builder& b);

void alltoall_bruck(Builder& b);
void alltoall_linear(Builder& b);
void alltoall_pairwise(Builder& b);

void barrier_dissemination(Builder& b);
void barrier_linear(Builder& b);
void barrier_recursive_doubling(Builder& b);

void broadcast_binary_tree(Builder& b);
void broadcast_binomial(Builder& b);
void broadcast_chain(Builder& b);
void broadcast_double_tree(Builder& b);
void broadcast_k_nomial(Builder& b);
void broadcast_linear(Builder& b);
void broadcast_multicast(Builder& b);
void broadcast_scatter_allgather(Builder& b);

void gather_binomial(Builder& b);
void gather_linear(Builder& b);
void scatter_binomial(Builder& b);
void scatter_linear(Builder& b);

void reduce_binomial(Builder& b);
void reduce_binomial_ordered(Builder& b);
void reduce_linear_keyed(Builder& b);

void reduce_scatter_halving(Builder& b);
void reduce_scatter_ring(Builder& b);

}  // namespace tutti::collectives
