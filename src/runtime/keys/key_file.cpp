#include "runtime/keys/key_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "device/posix/descriptor.hpp"

namespace tutti::runtime {

namespace {

constexpr std::size_t kDigits = 2 * crypto::Secret::kBytes;
constexpr mode_t kMode = 0600;

/// Refuses a file that another user could have written or can read. The open descriptor is
/// examined, since the path may name another file in the meantime.
Status check_file(int descriptor, const std::string& path) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0)
    return system_failure(errno, "the job key file {} cannot be examined", path);
  if (!S_ISREG(info.st_mode)) {
    return failure(Code::invalid_argument,
                   "the job key file {} is not a regular file: name a file that `tutti key new` "
                   "made",
                   path);
  }
  if (info.st_uid != ::geteuid()) {
    return failure(Code::invalid_argument,
                   "the job key file {} belongs to user {}, not to user {} of this process: use a "
                   "file of your own",
                   path, info.st_uid, ::geteuid());
  }
  if ((info.st_mode & 07777 & ~kMode) != 0) {
    return failure(Code::invalid_argument,
                   "the job key file {} has mode {:04o}, so other users may open it: run chmod 600 "
                   "{}, and make a new key if others may have read it",
                   path, info.st_mode & 07777, path);
  }
  return {};
}

/// Reads at most `room` bytes.
Result<std::size_t> read_all(int descriptor, std::span<std::byte> room, const std::string& path) {
  std::size_t size = 0;
  while (size < room.size()) {
    const ssize_t got = ::read(descriptor, room.data() + size, room.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure(errno, "the job key file {} cannot be read", path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  return size;
}

Status write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_failure(errno, "writing the key");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(descriptor) != 0) return system_failure(errno, "writing the key");
  return {};
}

}  // namespace

Result<crypto::Secret> parse_key(std::string_view digits, const std::string& from) {
  crypto::Secret key;
  if (from_hex(digits, key.writable())) return key;
  return failure(Code::invalid_argument,
                 "the job key in {} is not {} hexadecimal digits: make one with `tutti key new "
                 "FILE`",
                 from, kDigits);
}

Result<crypto::Secret> read_key_file(const std::string& path) {
  // Without O_NONBLOCK the opening of a pipe would wait for its writer.
  const device::Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file.valid() && errno == ELOOP) {
    return failure(Code::invalid_argument,
                   "the job key file {} is a symbolic link: name the file itself", path);
  }
  if (!file.valid()) {
    return system_failure(errno,
                          "the job key file {} cannot be opened: make it with `tutti key new {}`, "
                          "or correct TUTTI_JOB_KEY_FILE",
                          path, path);
  }
  if (Status status = check_file(file.get(), path); !status) return status;
  std::array<std::byte, kDigits + 2> text;  // room for a newline, and for one byte too many
  const auto size = read_all(file.get(), text, path);
  if (!size) return size.status();
  std::string_view digits(reinterpret_cast<const char*>(text.data()), *size);
  if (digits.ends_with('\n')) digits.remove_suffix(1);
  auto key = parse_key(digits, "file " + path);
  crypto::wipe(text);
  return key;
}

Status write_key_file(const std::string& path) {
  const auto key = crypto::Secret::random();
  if (!key) return key.status();
  const device::Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (!file.valid() && errno == EEXIST) {
    return failure(Code::invalid_argument,
                   "{} exists already: name another file, or remove it if no job needs its key",
                   path);
  }
  if (!file.valid()) return system_failure(errno, "{} cannot be made", path);
  std::string text = to_hex(key->bytes()) + "\n";
  const Status status = write_all(file.get(), text);
  crypto::wipe(std::as_writable_bytes(std::span(text)));
  if (status.ok()) return {};
  (void)::unlink(path.c_str());
  return failure(status.code(), "{}: {}", path, status.message());
}

}  // namespace tutti::runtime
