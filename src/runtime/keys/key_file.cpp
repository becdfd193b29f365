#include "runtime/keys/key_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <span>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "device/posix/private_file.hpp"

namespace tutti::runtime {

namespace {

constexpr std::size_t kDigits = 2 * crypto::Secret::kBytes;

Status of_key_file(const PrivateFile& what, const Status& status) {
  return failure_from(status, "the {} {}", what.name, status.message());
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

Result<std::vector<std::byte>> read_private_file(const std::string& path, std::size_t room,
                                                 const PrivateFile& what) {
  const auto file = device::open_private_file(path);
  if (!file) return of_key_file(what, file.status());
  if (!file->valid()) {
    return failure(Code::system,
                   "the {} {} does not exist: make it with `tutti key new {}`, or correct {}",
                   what.name, path, path, what.variable);
  }
  std::vector<std::byte> bytes(room);
  const auto size = device::read_all(*file, bytes, path);
  if (!size) return of_key_file(what, size.status());
  bytes.resize(*size);
  return bytes;
}

Result<crypto::Secret> read_key_file(const std::string& path) {
  // Reads up to two bytes more than the digits: a newline, and one more byte, so that parse_key()
  // rejects a file that is too long.
  auto text = read_private_file(path, kDigits + 2, kJobKeyFile);
  if (!text) return text.status();
  std::string_view digits(reinterpret_cast<const char*>(text->data()), text->size());
  if (digits.ends_with('\n')) digits.remove_suffix(1);
  auto key = parse_key(digits, "file " + path);
  crypto::wipe(*text);
  return key;
}

Status write_key_file(const std::string& path) {
  const auto key = crypto::Secret::random();
  if (!key) return key.status();
  const auto file = device::create_private_file(path);
  if (!file) return file.status();
  std::string text = to_hex(key->bytes()) + "\n";
  Status status = device::write_all(*file, std::as_bytes(std::span(text)), path);
  if (status.ok() && ::fsync(file->get()) != 0)
    status = system_failure(errno, "{} cannot be written", path);
  crypto::wipe(std::as_writable_bytes(std::span(text)));
  if (!status) (void)::unlink(path.c_str());
  return status;
}

}  // namespace tutti::runtime
