// Whether the system lets this process read the memory of other processes of its user.
#pragma once

#include <unistd.h>

#include <array>
#include <cstddef>

#include "device/posix/process_memory.hpp"

namespace tutti::test {

inline bool reads_processes() {
  const std::array<std::byte, 1> source{};
  std::array<std::byte, 1> copy{};
  const device::RemoteCopy one{reinterpret_cast<std::uintptr_t>(source.data()), copy};
  return device::read_process(::getpid(), one, {});
}

}  // namespace tutti::test
