#include "device/posix/private_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"

namespace tutti::device {

namespace {

constexpr mode_t kMode = 0600;

/// Refuses a file that another user could have written or can read. The open descriptor is
/// examined, because the path may meanwhile name another file.
Status check_private(const Descriptor& file, const std::string& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_failure(errno, "{} cannot be examined", path);
  if (!S_ISREG(info.st_mode)) {
    return failure(Code::invalid_argument,
                   "{} is not a regular file: name another file, or remove it", path);
  }
  if (info.st_uid != ::geteuid()) {
    return failure(Code::invalid_argument,
                   "{} belongs to user {}, not to user {} of this process: use a file of your own",
                   path, info.st_uid, ::geteuid());
  }
  if ((info.st_mode & 07777 & ~kMode) != 0) {
    return failure(Code::invalid_argument,
                   "{} has mode {:04o}, but must allow at most 0600: run chmod 600 {}, and use a "
                   "new file if other users may have read or written this one",
                   path, info.st_mode & 07777, path);
  }
  return {};
}

}  // namespace

Result<Descriptor> create_private_file(const std::string& path) {
  Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (file.valid()) return file;
  if (errno != EEXIST) return system_failure(errno, "{} cannot be made", path);
  return failure(Code::invalid_argument,
                 "{} exists already: remove it if nothing needs it, or name another file", path);
}

Result<Descriptor> open_private_file(const std::string& path) {
  // Without O_NONBLOCK, `open` would wait for a writer if the path names a pipe.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file.valid() && errno == ENOENT) return file;
  if (!file.valid() && errno == ELOOP) {
    return failure(Code::invalid_argument, "{} is a symbolic link: name the file itself", path);
  }
  if (!file.valid()) return system_failure(errno, "{} cannot be opened", path);
  if (Status status = check_private(file, path); !status) return status;
  return file;
}

Status write_all(const Descriptor& file, std::span<const std::byte> bytes,
                 const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_failure(errno, "{} cannot be written", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<std::size_t> read_all(const Descriptor& file, std::span<std::byte> room,
                             const std::string& path) {
  std::size_t size = 0;
  while (size < room.size()) {
    const ssize_t got = ::read(file.get(), room.data() + size, room.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure(errno, "{} cannot be read", path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  return size;
}

Status replace_private_file(const std::string& path, std::string_view text) {
  const std::string unfinished = fmt::format("{}.{}", path, ::getpid());
  const auto file = create_private_file(unfinished);
  if (!file) return file.status();
  Status status = write_all(*file, std::as_bytes(std::span(text)), unfinished);
  if (status.ok() && ::rename(unfinished.c_str(), path.c_str()) != 0)
    status = system_failure(errno, "{} cannot be renamed to {}", unfinished, path);
  if (!status) (void)::unlink(unfinished.c_str());
  return status;
}

}  // namespace tutti::device
