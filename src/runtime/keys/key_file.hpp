// Job key files: one key as 64 hexadecimal digits, which only the file's owner can read.
#pragma once

#include <string>
#include <string_view>

#include "crypto/secret.hpp"
#include "tutti/status.hpp"

namespace tutti::runtime {

/// Reads the key in a regular file of this user that no other user can open. The last part of
/// `path` may not be a symbolic link.
Result<crypto::Secret> read_key_file(const std::string& path);

/// Writes a new random key to a file that does not exist yet.
Status write_key_file(const std::string& path);

/// Reads a key from 64 hexadecimal digits; `from` names their place in an error.
Result<crypto::Secret> parse_key(std::string_view digits, const std::string& from);

}  // namespace tutti::runtime
