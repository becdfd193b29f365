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

/// Creates a new file with mode 0600 for writing. Fails with Code::invalid_argument if the path
/// exists, even as a link.
Result<Descriptor> create_private_file(const std::string& path);

/// Opens a file for reading; it must be a regular file of this user that no other user can open.
/// The last part of `path` may not be a symbolic link. If no file exists, the descriptor is not
/// valid.
Result<Descriptor> open_private_file(const std::string& path);

/// Writes all bytes; `path` is used only in the error text.
Status write_all(const Descriptor& file, std::span<const std::byte> bytes, const std::string& path);

/// Reads until the end of the file or until `room` is full; returns the number of bytes.
Result<std::size_t> read_all(const Descriptor& file, std::span<std::byte> room,
                             const std::string& path);

/// Writes `text` to the new file PATH.PID, and then renames that file to `path`. An existing file
/// or link at `path` is replaced, and a failure leaves no partial file.
Status replace_private_file(const std::string& path, std::string_view text);

}  // namespace tutti::device
