// Job key files: one key as 64 hexadecimal digits, which only the file's owner can read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "crypto/secret.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Text for errors: the remedy if ranks have different keys.
inline constexpr const char* kGiveSameKey =
    "give all ranks the same key file (TUTTI_JOB_KEY_FILE) or the same job_key";

/// A kind of file that contains a secret: the name of the kind in errors, and the environment
/// variable that contains the path of the file.
struct PrivateFile {
  const char* name;
  const char* variable;
};
inline constexpr PrivateFile kJobKeyFile{"job key file", "TUTTI_JOB_KEY_FILE"};
inline constexpr PrivateFile kAggregatorKeyFile{"aggregator key file", "TUTTI_AGGREGATOR_KEY_FILE"};

/// Reads at most `room` bytes of a regular file. The file must belong to this user and be
/// inaccessible to other users, and the last part of `path` must not be a symbolic link.
Result<std::vector<std::byte>> read_private_file(const std::string& path, std::size_t room,
                                                 const PrivateFile& what);

/// Reads the job key from a file, with the checks of read_private_file.
Result<crypto::Secret> read_key_file(const std::string& path);

/// Writes a new random key to a file that does not exist yet.
Status write_key_file(const std::string& path);

/// Reads a key from 64 hexadecimal digits; errors name `from` as the source of the digits.
Result<crypto::Secret> parse_key(std::string_view digits, const std::string& from);

}  // namespace tutti::runtime
