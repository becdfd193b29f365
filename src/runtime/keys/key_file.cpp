#include "runtime/keys/key_file.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "device/posix/private_file.hpp"

namespace tutti::runtime {

namespace {

constexpr std::size_t kDigits = 2 * crypto::Secret::kBytes;
Status of_key_file(const Status& status) {
  return failure_from(status, "the job key file {}", status.message());
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
  const auto file = device::open_private_file(path);
  if (!file) return of_key_file(file.status());
  if (!file->valid()) {
    return failure(
        Code::system,
        "the job key file {} does not exist: make it with `tutti key new {}`, or correct "
        "TUTTI_JOB_KEY_FILE",
        path, path);
  }
  std::array<std::byte, kDigits + 2> text;  // room for a newline, and for one byte too many
  const auto size = device::read_all(*file, text, path);
  if (!size) return of_key_file(size.status());
  std::string_view digits(reinterpret_cast<const char*>(text.data()), *size);
  if (digits.ends_with('\n')) digits.remove_suffix(1);
  auto key = parse_key(digits, "file " + path);
  crypto::wipe(text);
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
