// The command line of radix_sort.
#pragma once

#include <tutti/communicator.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "sorter.hpp"

namespace radix_sort {

/// The distribution of the keys.
enum class Keys : std::uint8_t {
  uniform,  ///< every key equally likely
  few,      ///< three values, so most buckets are empty and parts very uneven
  equal,    ///< one value
};

/// The damage to the result, for a test of the check.
enum class Damage : std::uint8_t {
  none,
  order,  ///< two keys of the last rank are swapped
  ranks,  ///< the ranks' blocks are reversed
  key,    ///< a key of the last rank is overwritten by its neighbour, which keeps the order
};

struct Options {
  std::vector<std::uint32_t> radices{256};
  std::vector<std::uint64_t> keys_per_rank{4096};
  std::uint32_t key_bits = 32;  ///< 32 or 64
  Keys keys = Keys::uniform;
  bool taper = false;  ///< whether rank r sorts the share r / (P - 1) of the keys, and rank 0 none
  std::uint64_t seed = 1;
  int iterations = 9;
  int warmup = 2;
  std::string allgather;                               ///< algorithm; empty: chosen by the library
  std::string alltoall;                                ///< algorithm; empty: chosen by the library
  std::uint64_t piece_bytes = std::uint64_t{1} << 20;  ///< largest block in bytes of one Alltoall
  Progress progress = Progress::test;
  Damage damage = Damage::none;
  std::string json_path;
  tutti::CommunicatorOptions communicator;
};

/// Parses the command line. Returns Code::invalid_argument naming a bad argument, or Code::ok with
/// an empty list of radices after printing the help.
tutti::Status read(int argc, char** argv, Options& options);

const char* to_string(Keys keys);
const char* to_string(Progress progress);
/// Formats a radix as --radix takes it: "10", and "2^16" for powers from 2^5.
std::string radix_text(std::uint32_t radix);

}  // namespace radix_sort
