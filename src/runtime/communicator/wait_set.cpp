#include "runtime/communicator/wait_set.hpp"

#include <algorithm>

#include "runtime/progress/clock.hpp"

namespace tutti::runtime {
namespace {

/// Time for which a thread polls one engine before it polls the next one: kFirstTurn in the first
/// round over all engines. Each further round doubles the time, up to kLongestTurn.
constexpr Nanoseconds kFirstTurn{500'000};
constexpr Nanoseconds kLongestTurn{8'000'000};

}  // namespace

WaitSet::WaitSet(std::span<const RequestState* const> requests)
    : requests_(requests.begin(), requests.end()) {
  for (const RequestState* one : requests_) {
    Progress* const engine = one->communicator->progress().get();
    if (std::find(engines_.begin(), engines_.end(), engine) == engines_.end())
      engines_.push_back(engine);
  }
  on_each([&](engine::Completion& completion) {
    if (completion.done.load(std::memory_order_acquire)) {
      any_.done.store(true, std::memory_order_release);
    } else {
      completion.any_of = &any_;
    }
  });
}

WaitSet::~WaitSet() {
  on_each([](engine::Completion& completion) { completion.any_of = nullptr; });
}

/// Runs `work` on the completion of each request. Meanwhile this thread owns the engine of the
/// request, so that no other thread completes the request.
template <typename Work>
void WaitSet::on_each(const Work& work) {
  for (Progress* engine : engines_) {
    engine->with_engine([&] {
      for (const RequestState* one : requests_)
        if (one->communicator->progress().get() == engine) work(*one->completion);
    });
  }
}

bool WaitSet::wait(Instant deadline) {
  Nanoseconds turn = kFirstTurn;
  while (true) {
    for (Progress* engine : engines_) {
      const Instant end = engines_.size() == 1 ? deadline : std::min(deadline, now() + turn);
      if (engine->wait(any_, end)) return true;
    }
    if (now() >= deadline) return any_.done.load(std::memory_order_acquire);
    turn = std::min(2 * turn, kLongestTurn);
  }
}

}  // namespace tutti::runtime
