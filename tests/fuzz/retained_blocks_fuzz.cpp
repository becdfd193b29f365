// Fuzzes a root that retains copies of its blocks and answers requests for them. It answers each
// request at most once, answers "ready" only if it has the copy, and keeps each copy until all
// ranks have acknowledged the block.
#include "engine/core/retained_blocks.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "fuzz.hpp"
#include "scripted_endpoint.hpp"

namespace {

using namespace tutti;  // NOLINT: no other file includes this source file
using fuzz::Input;
using fuzz::require;

constexpr std::uint32_t kRanks = 3;
constexpr Rank kMe{0};
constexpr Nanoseconds kGrace{5};
// First epoch. It is so close to the largest value that epochs wrap during the test.
constexpr std::uint32_t kFirstEpoch = 0xffff'fff0u;

class Job {
 public:
  void operate(Input& input) {
    const auto what = input.take<std::uint8_t>();
    now_ = now_ + Nanoseconds(what >> 4);
    const Rank peer = rank_of(1 + what / 8 % 2);
    const std::uint32_t epoch = kFirstEpoch + input.take<std::uint8_t>() % 64;
    switch (what % 4) {
      case 0:
        kept_.keep(now_, next_, std::vector<std::byte>(1 + what));
        held_.push_back(next_++);
        require(kept_.holds(held_.back()));
        break;
      case 1:
        ask(peer, epoch, input);
        break;
      case 2:
        acks_.on_ack(peer, epoch);
        kept_.release(acks_);
        std::erase_if(held_, [&](std::uint32_t one) {
          const bool at_all = acks_.all_but(kMe, one);
          require(kept_.holds(one) != at_all);
          return at_all;
        });
        break;
      default:
        serve();
    }
    for (const std::uint32_t one : held_) require(kept_.holds(one));
  }

 private:
  void ask(Rank peer, std::uint32_t epoch, Input& input) {
    protocol::Message request{.kind = protocol::MessageKind::fetch_request, .epoch = epoch};
    for (auto ranges = input.take<std::uint8_t>() % 3; ranges > 0; --ranges) {
      const auto first = input.take<std::uint32_t>();
      require(request.add({first, first + 1 + input.take<std::uint8_t>()}));
    }
    ++asked_;
    const bool held = kept_.holds(epoch);
    require(kept_.ask(peer, request, outbox_));
    require(outbox_.items().size() == (held ? 1u : 0u));
    take_answers();
  }
  void serve() {
    kept_.serve(now_, acks_, outbox_);
    take_answers();
    require(kept_.next_deadline() > now_);
  }
  void take_answers() {
    for (const protocol::Outbox::Item& item : outbox_.items()) {
      require(item.to == rank_of(1) || item.to == rank_of(2));
      require((item.message.kind == protocol::MessageKind::fetch_ready) ==
              kept_.holds(item.message.epoch));
      require(++answered_ <= asked_);
    }
    outbox_.clear();
  }

  fuzz::ScriptedEndpoint endpoint_;
  engine::RetainedBlocks kept_{kMe, endpoint_, kGrace};
  protocol::DeliveryAcks acks_{kRanks, kFirstEpoch, Nanoseconds(1)};
  protocol::Outbox outbox_;
  std::vector<std::uint32_t> held_;
  std::uint32_t next_ = kFirstEpoch;
  std::uint64_t asked_ = 0;
  std::uint64_t answered_ = 0;
  Instant now_{1'000'000};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, std::min<std::size_t>(size, 4096));
  Job job;
  while (!input.empty()) job.operate(input);
  return 0;
}
