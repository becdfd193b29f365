// Files in folders where other users may write: no link is followed, no file of another user is
// read, and no other user can open what this process writes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "device/posix/descriptor.hpp"
#include "tutti/status.hpp"

namespace tutti::device {

/// Creates a file for writing that did not exist, with mode 0600. Code::invalid_argument: the path
/// exists, also as a link.
Result<Descriptor> create_private_file(const std::string& path);

/// Opens a regular file of this user for reading that no other user can open. The last part of
/// `path` may not be a symbolic link. The descriptor is not valid if there is no such file.
Result<Descriptor> open_private_file(const std::string& path);

/// Writes all bytes; `path` is for the error only.
Status write_all(const Descriptor& file, std::span<const std::byte> bytes, const std::string& path);

/// Reads until the end of the file or until `room` is full; returns the number of bytes.
Result<std::size_t> read_all(const Descriptor& file, std::span<std::byte> room,
                             const std::string& path);

/// Writes `text` to the new file PATH.PID, and renames it to `path` when it is complete. A file of
/// that name, or a link, is replaced. After a failure no partial file is left.
Status replace_private_file(const std::string& path, std::string_view text);

}  // namespace tutti::device
