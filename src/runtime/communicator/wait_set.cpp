#include "runtime/communicator/wait_set.hpp"

#include <algorithm>

#include "runtime/progress/clock.hpp"

namespace tutti::runtime {
namespace {

/// Time for which a thread polls one engine while calls of other engines may end, too.
constexpr Nanoseconds kTurn{1'000'000};

}  // namespace

WaitSet::WaitSet(std::span<const RequestState* const> requests)
    : requests_(requests.begin(), requests.end()) {
  for (const RequestState* one : requests_) {
    Progress* const engine = one->communicator->progress().get();
    if (std::find(engines_.begin(), engines_.end(), engine) == engines_.end())
      engines_.push_back(engine);
  }
  for (const RequestState* one : requests_) {
    one->communicator->progress()->with_engine([&] {
      engine::Completion& completion = *one->completion;
      if (completion.done.load(std::memory_order_acquire)) {
        any_.done.store(true, std::memory_order_release);
      } else {
        completion.any_of = &any_;
      }
    });
  }
}

WaitSet::~WaitSet() {
  for (const RequestState* one : requests_)
    one->communicator->progress()->with_engine([&] { one->completion->any_of = nullptr; });
}

bool WaitSet::wait(Instant deadline) {
  while (true) {
    for (Progress* engine : engines_) {
      const Instant end = engines_.size() == 1 ? deadline : std::min(deadline, now() + kTurn);
      if (engine->wait(any_, end)) return true;
    }
    if (now() >= deadline) return any_.done.load(std::memory_order_acquire);
  }
}

}  // namespace tutti::runtime
