#include "device/posix/home_process.hpp"

#include <pthread.h>

#include <new>

namespace tutti::device {

std::atomic<std::uint32_t> fork_generation{0};

namespace {

struct Abandoned {
  void* object;
  Abandoned* next;
};

std::atomic<Abandoned*> abandoned{nullptr};

[[maybe_unused]] const int registered =
    ::pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1); });

}  // namespace

void abandon(void* object) {
  auto* const one = new (std::nothrow) Abandoned{object, abandoned.load()};
  if (one == nullptr) return;
  while (!abandoned.compare_exchange_weak(one->next, one)) {
  }
}

}  // namespace tutti::device
