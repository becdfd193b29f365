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
  uniform,  ///< keys drawn so that every value is equally likely
  few,      ///< keys with three values, so that most buckets are empty and parts are very uneven
  equal,    ///< keys that all have one value
};

/// The damage done to the result in order to test the check.
enum class Damage : std::uint8_t {
  none,
  order,  ///< exchange of two keys of the last rank
  ranks,  ///< reversed order of the ranks' blocks
  key,    ///< key of the last rank overwritten by its neighbour, which keeps the order
};

struct Options {
  std::vector<std::uint32_t> radices{256};
  std::vector<std::uint64_t> keys_per_rank{4096};
  std::uint32_t key_bits = 32;  ///< width of a key in bits, 32 or 64
  Keys keys = Keys::uniform;
  /// Whether rank r sorts the share r / (P - 1) of the keys, so that rank 0 has none.
  bool taper = false;
  std::uint64_t seed = 1;
  int iterations = 9;
  int warmup = 2;
  /// Algorithm of the Allgather; empty: chosen by the library.
  std::string allgather;
  /// Algorithm of the Alltoall; empty: chosen by the library.
  std::string alltoall;
  /// Size of the largest block of one Alltoall, in bytes.
  std::uint64_t piece_bytes = std::uint64_t{1} << 20;
  Progress progress = Progress::test;
  Damage damage = Damage::none;
  std::string json_path;
  tutti::CommunicatorOptions communicator;
};

/// Parses the command line. Returns an error (invalid_argument) that names a bad argument, or,
/// after printing the help, options without radices.
tutti::Status read(int argc, char** argv, Options& options);

const char* to_string(Keys keys);
const char* to_string(Progress progress);
/// The radix as --radix takes it: "10", but "2^16" for powers of two from 2^5 on.
std::string radix_text(std::uint32_t radix);

}  // namespace radix_sort
