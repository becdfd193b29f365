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
  uniform,  ///< random keys, every value equally likely
  few,      ///< random keys with three different values, so that most digits never occur
  equal,    ///< equal keys
};

/// The damage done to the sorted keys on purpose, to test that the check finds it.
enum class Damage : std::uint8_t {
  none,
  order,  ///< swap of two keys on the last rank
  ranks,  ///< reversal of the order of the ranks' blocks
  /// Replacement of a key on the last rank by a copy of the next key; the keys still ascend, but
  /// one is lost.
  key,
};

struct Options {
  std::vector<std::uint32_t> radices{256};
  std::vector<std::uint64_t> keys_per_rank{4096};
  std::uint32_t key_bits = 32;  ///< width of a key in bits, 32 or 64
  Keys keys = Keys::uniform;
  /// Whether the number of keys grows linearly with the rank: rank 0 has no keys, and only the last
  /// rank has the number of keys that --keys gives.
  bool taper = false;
  std::uint64_t seed = 1;
  int iterations = 9;
  int warmup = 2;
  /// Algorithm of the Allgather; empty: chosen by the library.
  std::string allgather;
  /// Algorithm of the Alltoall; empty: chosen by the library.
  std::string alltoall;
  /// Largest block that one Alltoall of the exchange sends, in bytes.
  std::uint64_t piece_bytes = std::uint64_t{1} << 20;
  Progress progress = Progress::test;
  Damage damage = Damage::none;
  std::string json_path;
  tutti::CommunicatorOptions communicator;
};

/// Parses the command line into `options`. If the command line asks for help, prints the help and
/// leaves `options.radices` empty. Error (invalid_argument): names the bad argument.
tutti::Status read(int argc, char** argv, Options& options);

const char* to_string(Keys keys);
const char* to_string(Progress progress);
/// The radix as text for --radix: a power of two is written as in "2^16" if it is at least 32, any
/// other radix as in "10".
std::string radix_text(std::uint32_t radix);

}  // namespace radix_sort
