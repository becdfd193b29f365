#include "device/posix/process_memory.hpp"

#include <sys/uio.h>

#include <array>

namespace tutti::device {

namespace {

iovec local_end(const RemoteCopy& copy) { return {copy.to.data(), copy.to.size()}; }

iovec remote_end(const RemoteCopy& copy) {
  const auto address = static_cast<std::uintptr_t>(copy.from);
  return {reinterpret_cast<void*>(address), copy.to.size()};  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

bool read_process(pid_t process, const RemoteCopy& first, const RemoteCopy& second) {
  const std::array<iovec, 2> local{local_end(first), local_end(second)};
  const std::array<iovec, 2> remote{remote_end(first), remote_end(second)};
  const ssize_t copied =
      ::process_vm_readv(process, local.data(), local.size(), remote.data(), remote.size(), 0);
  return copied == static_cast<ssize_t>(first.to.size() + second.to.size());
}

}  // namespace tutti::device
