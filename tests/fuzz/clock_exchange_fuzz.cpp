// Fuzzes the clock exchange of a rank to which hostile peers send messages, data and immediates.
// The rank accepts each answer once, and ends the exchange as soon as all correct answers have
// arrived.
#include "engine/core/clock_exchange.hpp"

#include <algorithm>
#include <vector>

#include "engine/core/communicator_context.hpp"
#include "fuzz.hpp"
#include "protocol/codec/data_message.hpp"
#include "scripted_endpoint.hpp"

namespace {

using namespace tutti;  // NOLINT: no other file includes this source file
using fuzz::Input;
using fuzz::require;

constexpr std::uint32_t kRanks = 3;
constexpr std::uint32_t kExchanges = engine::ClockExchange::kExchanges;
constexpr std::size_t kAnswerBytes = 24;

Instant ticking() {
  static std::int64_t time = 0;
  return {++time};
}

std::vector<std::byte> data(std::uint32_t epoch, std::uint32_t slot,
                            std::span<const std::byte> payload) {
  std::vector<std::byte> bytes(protocol::kDataHeaderBytes);
  protocol::encode_data_header(epoch, slot, bytes.data());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

class Job {
 public:
  explicit Job(Rank me) : me_(me) {
    auto endpoint = std::make_unique<fuzz::ScriptedEndpoint>();
    endpoint_ = endpoint.get();
    context_ = std::make_unique<engine::CommunicatorContext>(
        me, kRanks, engine::Settings{}, std::move(endpoint),
        std::vector<std::string>{"rank 0", "rank 1", "rank 2"});
    auto exchange = std::make_unique<engine::ClockExchange>(&ticking, 7, outcome_);
    ended_ = exchange->completion();
    context_->operations().submit(std::move(exchange));
    poll();
  }

  void hostile(Input& input) {
    const auto what = input.take<std::uint8_t>();
    const Rank from = rank_of((index(me_) + 1 + what / 4 % 2) % kRanks);
    if (what % 4 == 0) {
      const auto bytes = input.take_bytes(input.take<std::uint8_t>());
      endpoint_->deliver(from, {bytes.begin(), bytes.end()});
    } else if (what % 4 == 1) {
      endpoint_->deliver(from, {}, input.take<std::uint64_t>());
    } else {
      const std::uint32_t epoch = what % 4 == 2 ? 1 : input.take<std::uint8_t>();
      const std::uint32_t slot = input.take<std::uint8_t>() % (2 * kExchanges);
      std::vector<std::byte> payload(what >= 128 ? kAnswerBytes : what / 8);
      const auto given = input.take_bytes(payload.size());
      std::copy(given.begin(), given.end(), payload.begin());
      endpoint_->deliver(from, data(epoch, slot, payload));
    }
    poll();
  }

  /// Delivers the messages of correct peers. These messages must end the exchange, whichever
  /// hostile messages came before.
  void check_end() {
    const std::vector<std::byte> answer(index(me_) == 0 ? 0 : kAnswerBytes);
    for (std::uint32_t slot = 0; slot < kExchanges; ++slot) {
      for (std::uint32_t from = 0; from < kRanks; ++from) {
        if (rank_of(from) == me_) continue;
        endpoint_->deliver(rank_of(from), data(1, slot, answer));
        poll();
      }
    }
    require(outcome_.bounds.exchanges() <= kExchanges);
    // A trace (observe/trace_export.hpp) contains each instant plus the clock offset, and the error
    // of the offset. Neither computation may overflow.
    (void)(ticking() + outcome_.bounds.offset() - outcome_.origin);
    (void)outcome_.bounds.error();
    require(ended_->done || context_->failures().settled());
    if (ended_->done && ended_->status.ok() && index(me_) != 0) {
      require(outcome_.bounds.exchanges() == kExchanges);
    }
    // Rank 0 answers each clock request at most once, and each other rank sends each request at
    // most once.
    const std::uint64_t most = index(me_) == 0 ? (kRanks - 1) * kExchanges : kExchanges;
    require(endpoint_->data_posted() <= most);
  }

 private:
  void poll() {
    now_ = now_ + Nanoseconds(1);
    context_->poll(now_);
  }

  Rank me_;
  engine::ClockComparison outcome_;
  fuzz::ScriptedEndpoint* endpoint_ = nullptr;
  std::unique_ptr<engine::CommunicatorContext> context_;
  std::shared_ptr<engine::Completion> ended_;
  Instant now_{1};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  for (const std::uint32_t me : {0u, 1u}) {
    Input input(bytes, std::min<std::size_t>(size, 8192));
    Job job(rank_of(me));
    while (!input.empty()) job.hostile(input);
    job.check_end();
  }
  return 0;
}
