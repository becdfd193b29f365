// Reading the memory of other processes of the same user.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::device {

/// A copy from the memory of another process: the address `from` there, and the destination here.
struct RemoteCopy {
  std::uint64_t from = 0;
  std::span<std::byte> to{};
};

/// Copies `first` and `second` by one system call: all bytes come from one process, even if that
/// process ends meanwhile and the kernel reuses its id. Returns false if the system refuses or a
/// range is not readable; the destination memory may have changed then.
bool read_process(pid_t process, const RemoteCopy& first, const RemoteCopy& second);

}  // namespace tutti::device
