// A rank that calls a mix of all collectives, as a training job does, and checks every word of
// every result.
//
//   mix_program ROUNDS [until=PATH] [pause=MILLISECONDS]
//
// Each round calls every collective in several sizes and from several roots, alternately directly
// and prepared. The job ends after ROUNDS, or after the round in which rank 0 finds a file of the
// name PATH. pause: time without a call after each round.
//
// The program prints "round N NAME=VALUE ..." with its counters about twice a second, and at the
// end "final NAME=VALUE ..." and "complete: N rounds, M calls". On an error it prints "failed:
// STATUS" and exits with status 3. On wrong data it prints "wrong data ..." and exits with 4.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tutti/communicator.hpp"

namespace {

using tutti::Collective;
using Words = std::vector<std::uint32_t>;
using Clock = std::chrono::steady_clock;

constexpr int kUsage = 2;
constexpr int kFailed = 3;
constexpr int kWrongData = 4;
constexpr std::chrono::milliseconds kReportInterval{500};

/// The word with the index `at` that a rank contributes in a round.
std::uint32_t word(std::uint32_t rank, std::uint32_t round, std::size_t at) {
  return (rank + 1) * 1'000'003u + round * 7'919u + static_cast<std::uint32_t>(at);
}

/// The sum of the words with the index `at` that all ranks contribute in a round.
std::uint32_t sum(std::uint32_t ranks, std::uint32_t round, std::size_t at) {
  std::uint32_t total = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) total += word(rank, round, at);
  return total;
}

/// One call of the mix, with its buffers.
struct Case {
  Collective collective = Collective::barrier;
  std::size_t words = 0;  ///< number of words in a block
  std::uint32_t root = 0;
  Words send{};
  Words receive{};
  std::vector<std::uint64_t> sizes_bytes{};
  std::vector<std::uint64_t> offsets_bytes{};
  std::vector<std::uint64_t> send_sizes_bytes{};
  std::vector<std::uint64_t> send_offsets_bytes{};
  std::optional<tutti::Prepared> prepared{};
};

class Mix {
 public:
  explicit Mix(tutti::Communicator& communicator)
      : communicator_(communicator), me_(index(communicator.rank())), ranks_(communicator.size()) {
    const std::size_t lengths[] = {3, 900, 20'000, 300'000};
    for (const Collective one :
         {Collective::broadcast, Collective::allgather, Collective::allreduce,
          Collective::reduce_scatter, Collective::alltoall, Collective::gather, Collective::scatter,
          Collective::reduce, Collective::allgatherv, Collective::gatherv, Collective::scatterv,
          Collective::alltoallv, Collective::reduce_scatterv}) {
      for (const std::size_t length : lengths) {
        // Except in a Broadcast, Allreduce or Reduce, a rank's buffer contains a block for each
        // rank. These blocks are shorter, so that the longest calls do not take most of the time.
        const bool whole = one == Collective::broadcast || one == Collective::allreduce ||
                           one == Collective::reduce;
        const std::size_t words = whole ? length : std::max<std::size_t>(length / ranks_, 1);
        const std::uint32_t roots = has_root(one) ? 2 : 1;
        for (std::uint32_t i = 0; i < roots; ++i) add(one, words, (next_root_ + i) % ranks_);
        next_root_ = (next_root_ + roots) % ranks_;
      }
      add(Collective::barrier, 0, 0);
    }
  }

  /// Runs every call of a round; ok if every result is right.
  tutti::Status run(std::uint32_t round) {
    for (Case& one : cases_) {
      fill(one, round);
      auto request = start(one, round);
      if (!request) return request.status();
      if (tutti::Status status = request->wait(); !status.ok()) return status;
      ++calls_;
      if (!check(one, round)) {
        wrong_ = fmt::format("wrong data in round {}: {} of {} words, root {}", round,
                             to_string(one.collective), one.words, one.root);
        return {};
      }
    }
    return {};
  }
  const std::string& wrong() const { return wrong_; }
  std::uint64_t calls() const { return calls_; }

 private:
  void add(Collective collective, std::size_t words, std::uint32_t root) {
    Case& one = cases_.emplace_back(Case{collective, words, root});
    const bool at_root = me_ == root;
    const std::size_t all = words * ranks_;
    switch (collective) {
      case Collective::barrier:
        return;
      case Collective::broadcast:
        one.receive.resize(words);
        return;
      case Collective::allgatherv:
        for (std::uint32_t r = 0; r < ranks_; ++r) {
          one.offsets_bytes.push_back(4 * one.receive.size());
          one.sizes_bytes.push_back(4 * (words + r));
          one.receive.resize(one.receive.size() + words + r);
        }
        one.send.resize(words + me_);
        return;
      case Collective::allgather:
      case Collective::gather:
      case Collective::gatherv:
        one.send.resize(words);
        one.receive.resize(collective == Collective::allgather || at_root ? all : 0);
        if (collective == Collective::gatherv && at_root)
          add_blocks(words, one.sizes_bytes, one.offsets_bytes);
        return;
      case Collective::scatterv:
        if (at_root) add_blocks(words, one.send_sizes_bytes, one.send_offsets_bytes);
        [[fallthrough]];
      case Collective::scatter:
        one.send.resize(at_root ? all : 0);
        one.receive.resize(words);
        return;
      case Collective::alltoallv:
        add_blocks(words, one.send_sizes_bytes, one.send_offsets_bytes);
        add_blocks(words, one.sizes_bytes, one.offsets_bytes);
        [[fallthrough]];
      case Collective::alltoall:
        one.send.resize(all);
        one.receive.resize(all);
        return;
      case Collective::reduce_scatterv:
        add_blocks(words, one.send_sizes_bytes, one.send_offsets_bytes);
        [[fallthrough]];
      case Collective::reduce_scatter:
        one.send.resize(all);
        one.receive.resize(words);
        return;
      case Collective::reduce:
      case Collective::allreduce:
        one.send.resize(words);
        one.receive.resize(collective == Collective::allreduce || at_root ? words : 0);
        return;
    }
  }

  /// Appends the size and the offset of one block of `words` words for each rank.
  void add_blocks(std::size_t words, std::vector<std::uint64_t>& sizes_bytes,
                  std::vector<std::uint64_t>& offsets_bytes) const {
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      sizes_bytes.push_back(4 * words);
      offsets_bytes.push_back(4 * words * r);
    }
  }

  void fill(Case& one, std::uint32_t round) {
    std::fill(one.receive.begin(), one.receive.end(), 0u);
    const bool sends_received = one.collective == Collective::broadcast && me_ == one.root;
    Words& source = sends_received ? one.receive : one.send;
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = word(me_, round, i);
  }

  /// Starts the call, directly in even rounds and prepared in odd ones.
  tutti::Result<tutti::Request> start(Case& one, std::uint32_t round) {
    const tutti::CollectiveCall call{.collective = one.collective,
                                     .send = std::as_bytes(std::span(one.send)),
                                     .receive = std::as_writable_bytes(std::span(one.receive)),
                                     .root = tutti::rank_of(one.root),
                                     .reduction = {.type = tutti::DataType::uint32},
                                     .sizes_bytes = one.sizes_bytes,
                                     .offsets_bytes = one.offsets_bytes,
                                     .send_sizes_bytes = one.send_sizes_bytes,
                                     .send_offsets_bytes = one.send_offsets_bytes,
                                     .options = {.will_wait = true}};
    if (round % 2 == 0) return communicator_.start(call);
    if (!one.prepared) {
      auto made = communicator_.prepare(call);
      if (!made) return made.status();
      one.prepared = std::move(*made);
    }
    return one.prepared->start();
  }

  bool check(const Case& one, std::uint32_t round) const {
    const std::size_t n = one.words;
    const auto all_are = [&](auto&& wanted) {
      for (std::size_t i = 0; i < one.receive.size(); ++i) {
        if (one.receive[i] != wanted(i)) return false;
      }
      return true;
    };
    const auto block = [&](std::size_t i) { return static_cast<std::uint32_t>(i / n); };
    switch (one.collective) {
      case Collective::barrier:
        return true;
      case Collective::broadcast:
        return all_are([&](std::size_t i) { return word(one.root, round, i); });
      case Collective::allgather:
      case Collective::gather:
      case Collective::gatherv:
        return all_are([&](std::size_t i) { return word(block(i), round, i % n); });
      case Collective::allgatherv:
        return all_are([&](std::size_t i) {
          const auto after =
              std::upper_bound(one.offsets_bytes.begin(), one.offsets_bytes.end(), 4 * i);
          const auto rank = static_cast<std::uint32_t>(after - one.offsets_bytes.begin() - 1);
          return word(rank, round, i - one.offsets_bytes[rank] / 4);
        });
      case Collective::scatter:
      case Collective::scatterv:
        return all_are([&](std::size_t i) { return word(one.root, round, me_ * n + i); });
      case Collective::alltoall:
      case Collective::alltoallv:
        return all_are([&](std::size_t i) { return word(block(i), round, me_ * n + i % n); });
      case Collective::reduce_scatter:
      case Collective::reduce_scatterv:
        return all_are([&](std::size_t i) { return sum(ranks_, round, me_ * n + i); });
      case Collective::reduce:
      case Collective::allreduce:
        return all_are([&](std::size_t i) { return sum(ranks_, round, i); });
    }
    return false;
  }

  tutti::Communicator& communicator_;
  std::uint32_t me_;
  std::uint32_t ranks_;
  std::uint32_t next_root_ = 0;
  std::deque<Case> cases_;
  std::uint64_t calls_ = 0;
  std::string wrong_;
};

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

void say_counters(const std::string& head, const tutti::Communicator& communicator) {
  std::string line = head;
  for (const auto& [name, value] : communicator.counters()) {
    if (value != 0) line += fmt::format(" {}={}", name, value);
  }
  say(line);
}

/// Whether rank 0 wants to end the job. Rank 0 tells all ranks by a Broadcast.
tutti::Result<bool> agreed_end(tutti::Communicator& communicator, bool wanted) {
  std::byte flag{wanted ? std::uint8_t{1} : std::uint8_t{0}};
  auto request = communicator.broadcast(std::span(&flag, 1), tutti::rank_of(0));
  if (!request) return request.status();
  if (tutti::Status status = request->wait(); !status.ok()) return status;
  return flag != std::byte{0};
}

int failed(const tutti::Status& status) {
  say("failed: " + status.to_string());
  return kFailed;
}

struct Plan {
  std::uint32_t rounds = 0;
  std::string until{};
  std::uint64_t pause_ms = 0;
};

int run(tutti::Communicator& communicator, const Plan& plan) {
  Mix mix(communicator);
  auto reported = Clock::now();
  for (std::uint32_t round = 0;; ++round) {
    if (tutti::Status status = mix.run(round); !status.ok()) return failed(status);
    if (!mix.wrong().empty()) {
      say(mix.wrong());
      return kWrongData;
    }
    if (Clock::now() - reported >= kReportInterval) {
      reported = Clock::now();
      say_counters(fmt::format("round {}", round), communicator);
    }
    std::error_code unknown;
    const bool told = !plan.until.empty() && std::filesystem::exists(plan.until, unknown);
    const auto end = agreed_end(communicator, told || round + 1 >= plan.rounds);
    if (!end) return failed(end.status());
    if (*end) {
      say_counters("final", communicator);
      say(fmt::format("complete: {} rounds, {} calls", round + 1, mix.calls()));
      return 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(plan.pause_ms));
  }
}

template <typename Number>
bool read(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_option(std::string_view option, Plan& plan) {
  const std::size_t value = std::min(option.find('='), option.size() - 1) + 1;
  if (option.starts_with("until=")) plan.until = option.substr(value);
  if (option.starts_with("until=")) return !plan.until.empty();
  return option.starts_with("pause=") && read(option.substr(value), plan.pause_ms);
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  bool good = argc >= 2 && read(argv[1], plan.rounds);
  for (int i = 2; i < argc; ++i) good = good && read_option(argv[i], plan);
  if (!good) {
    std::fprintf(stderr, "usage: %s ROUNDS [until=PATH] [pause=MILLISECONDS]\n", argv[0]);
    return kUsage;
  }
  auto communicator = tutti::Communicator::create();
  if (!communicator) return failed(communicator.status());
  return run(*communicator, plan);
}
