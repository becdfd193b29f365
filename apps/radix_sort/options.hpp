// What the command line of radix_sort asks for.
#pragma once

#include <tutti/communicator.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "sorter.hpp"

namespace radix_sort {

/// Which keys are drawn.
enum class Keys : std::uint8_t {
  uniform,  ///< every key equally likely
  few,      ///< three values only: most buckets are empty and the parts very uneven
  equal,    ///< one value
};

/// What is spoilt before the check, so that a test can see the check notice it.
enum class Damage : std::uint8_t {
  none,
  order,  ///< two keys of the last rank change places
  ranks,  ///< the ranks' blocks come to lie in the opposite order
  key,    ///< a key of the last rank is overwritten by its neighbour: still in order
};

struct Options {
  std::vector<std::uint32_t> radices{256};
  std::vector<std::uint64_t> keys_per_rank{4096};
  std::uint32_t key_bits = 32;  ///< 32 or 64
  Keys keys = Keys::uniform;
  bool taper = false;  ///< rank r sorts only the share r / (P - 1) of the keys: rank 0 has none
  std::uint64_t seed = 1;
  int iterations = 9;
  int warmup = 2;
  std::string allgather;                               ///< algorithm; empty: the library chooses
  std::string alltoall;                                ///< the same
  std::uint64_t piece_bytes = std::uint64_t{1} << 20;  ///< largest block of one Alltoall
  Progress progress = Progress::test;
  Damage damage = Damage::none;
  std::string json_path;
  tutti::CommunicatorOptions communicator;
};

/// Reads the command line. Code::invalid_argument with one sentence that names the argument where
/// it cannot be used; Code::ok with an empty list of radices where help was asked for, and printed.
tutti::Status read(int argc, char** argv, Options& options);

const char* to_string(Keys keys);
const char* to_string(Progress progress);
/// As --radix takes it: "10", "2^16" from 2^5 on.
std::string radix_text(std::uint32_t radix);

}  // namespace radix_sort
