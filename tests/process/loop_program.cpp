// A rank that calls collectives repeatedly, for the failure tests.
//
//   loop_program allgather|broadcast BYTES COUNT [stop=RANK:CALL]
//                [compute=RANK:CALL:MILLISECONDS]... [by=ALGORITHM] [root=RANK] [counters=1]
//
// stop: the rank stops itself (SIGSTOP) before the call of this number. compute: the rank computes
// for the given time before the call, outside any collective. by: the algorithm, by default
// multicast. root: the root of every Broadcast, by default each rank in turn. counters: the rank
// prints "counter NAME VALUE" for each counter that is not zero at the end, and before them "ran N
// calls in S s" for the calls after "running".
//
// The program prints "running" after a few calls. On an error it prints "failed in S s: STATUS" and
// exits with status 3, on wrong data "wrong data" with status 4. SIGTERM at rank 0 of an Allgather
// makes the next call of rank 0 the last one of every rank.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tutti/communicator.hpp"

namespace {

constexpr int kFailed = 3;
constexpr int kWrongData = 4;
constexpr int kUsage = 2;
constexpr std::uint64_t kWarmCalls = 5;
/// The byte that rank 0 contributes to the last call after SIGTERM; contribution() never returns
/// it.
constexpr std::byte kLastCall{0};

volatile std::sig_atomic_t g_end_requested = 0;

void request_end(int) { g_end_requested = 1; }

struct Plan {
  bool gather = true;
  tutti::Algorithm algorithm = tutti::Algorithm::multicast;
  std::size_t size_bytes = 0;
  std::uint64_t calls = 0;
  std::uint64_t stop_rank = UINT64_MAX;
  std::uint64_t stop_call = 0;
  struct Absence {
    std::uint64_t rank = 0;
    std::uint64_t call = 0;
    std::uint64_t milliseconds = 0;
  };
  std::vector<Absence> absences;
  std::uint64_t root = UINT64_MAX;
  std::uint64_t counters = 0;
};

/// Parses a text such as "1:20:8000" into `places`; false if the text does not have exactly one
/// number for each of them.
bool read_numbers(std::string_view text, std::vector<std::uint64_t*> places) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *places[i]);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (i + 1 == places.size()) return text.empty();
    if (!text.starts_with(':')) return false;
    text.remove_prefix(1);
  }
  return false;
}

bool read_option(std::string_view option, Plan& plan) {
  const std::size_t equals = std::min(option.find('='), option.size());
  const std::string_view name = option.substr(0, equals);
  const std::string_view value = option.substr(std::min(equals + 1, option.size()));
  if (name == "by") {
    plan.algorithm = tutti::Algorithm(value);
    return !value.empty();
  }
  if (name == "counters") return read_numbers(value, {&plan.counters});
  if (name == "root") return read_numbers(value, {&plan.root});
  if (name == "stop") return read_numbers(value, {&plan.stop_rank, &plan.stop_call});
  if (name != "compute") return false;
  Plan::Absence& one = plan.absences.emplace_back();
  return read_numbers(value, {&one.rank, &one.call, &one.milliseconds});
}

bool read_arguments(int argc, char** argv, Plan& plan) {
  if (argc < 4) return false;
  const std::string_view operation = argv[1];
  plan.gather = operation == "allgather";
  if (!plan.gather && operation != "broadcast") return false;
  if (!read_numbers(argv[2], {&plan.size_bytes}) || !read_numbers(argv[3], {&plan.calls}))
    return false;
  for (int i = 4; i < argc; ++i) {
    if (!read_option(argv[i], plan)) return false;
  }
  return true;
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

/// The byte that a rank contributes to a call, different for any two ranks and any two consecutive
/// calls.
std::byte contribution(std::uint64_t rank, std::uint64_t call) {
  return static_cast<std::byte>((rank * 31 + call * 7) % 255 + 1);
}

/// The buffers that all calls use.
struct Buffers {
  std::vector<std::byte> own;
  std::vector<std::byte> all;  ///< receive buffer of an Allgather

  static bool all_are(std::span<const std::byte> bytes, std::byte value) {
    return std::all_of(bytes.begin(), bytes.end(), [&](std::byte one) { return one == value; });
  }
};

std::uint64_t root_of(const Plan& plan, std::uint64_t number, std::uint32_t ranks) {
  return plan.root == UINT64_MAX ? number % ranks : plan.root;
}

tutti::Status call(tutti::Communicator& communicator, const Plan& plan, std::uint64_t number,
                   Buffers& buffers) {
  const std::uint64_t me = index(communicator.rank());
  const std::uint64_t root = root_of(plan, number, communicator.size());
  if (plan.gather || me == root) {
    const bool last = plan.gather && me == 0 && g_end_requested != 0;
    std::fill(buffers.own.begin(), buffers.own.end(), last ? kLastCall : contribution(me, number));
  }
  const tutti::CollectiveOptions options{.algorithm = plan.algorithm, .will_wait = true};
  auto request = plan.gather
                     ? communicator.allgather(buffers.own, buffers.all, options)
                     : communicator.broadcast(
                           buffers.own, tutti::rank_of(static_cast<std::uint32_t>(root)), options);
  return request ? request->wait() : request.status();
}

/// True if rank 0 contributed kLastCall to the Allgather whose result is in `buffers`.
bool was_last(const Plan& plan, const Buffers& buffers) {
  return plan.gather && plan.size_bytes > 0 &&
         Buffers::all_are(std::span(buffers.all).first(plan.size_bytes), kLastCall);
}

bool data_are_right(const Plan& plan, std::uint64_t number, std::uint32_t ranks,
                    const Buffers& buffers) {
  if (!plan.gather) {
    return buffers.all_are(buffers.own, contribution(root_of(plan, number, ranks), number));
  }
  for (std::uint32_t r = was_last(plan, buffers) ? 1 : 0; r < ranks; ++r) {
    const auto block = std::span(buffers.all).subspan(r * plan.size_bytes, plan.size_bytes);
    if (!buffers.all_are(block, contribution(r, number))) return false;
  }
  return true;
}

int run(tutti::Communicator& communicator, const Plan& plan) {
  using Clock = std::chrono::steady_clock;
  const std::uint64_t me = index(communicator.rank());
  Buffers buffers;
  buffers.own.resize(plan.size_bytes);
  buffers.all.resize(plan.gather ? plan.size_bytes * communicator.size() : 0);
  if (plan.gather && me == 0) ::signal(SIGTERM, request_end);
  auto running_since = Clock::now();
  std::uint64_t number = 0;
  for (; number < plan.calls; ++number) {
    if (number == kWarmCalls) {
      say("running");
      running_since = Clock::now();
    }
    if (me == plan.stop_rank && number == plan.stop_call) ::raise(SIGSTOP);
    for (const Plan::Absence& one : plan.absences) {
      if (me != one.rank || number != one.call) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(one.milliseconds));
    }
    const auto begun = Clock::now();
    const tutti::Status status = call(communicator, plan, number, buffers);
    if (status.ok()) {
      if (!data_are_right(plan, number, communicator.size(), buffers)) {
        say(fmt::format("wrong data in call {}", number));
        return kWrongData;
      }
      if (was_last(plan, buffers)) break;
      continue;
    }
    const std::chrono::duration<double> took = Clock::now() - begun;
    say(fmt::format("failed in {:.3f} s: {}", took.count(), status.to_string()));
    return kFailed;
  }
  if (plan.counters != 0) {
    const std::chrono::duration<double> took = Clock::now() - running_since;
    say(fmt::format("ran {} calls in {:.6f} s", number - std::min(number, kWarmCalls),
                    took.count()));
    for (const auto& [name, value] : communicator.counters()) {
      if (value != 0) say(fmt::format("counter {} {}", name, value));
    }
  }
  say("complete");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  if (!read_arguments(argc, argv, plan)) {
    std::fprintf(stderr,
                 "usage: %s allgather|broadcast BYTES COUNT [stop=RANK:CALL] "
                 "[compute=RANK:CALL:MILLISECONDS]... [by=ALGORITHM] [root=RANK] [counters=1]\n",
                 argv[0]);
    return kUsage;
  }
  auto communicator = tutti::Communicator::create();
  if (!communicator) {
    say("cannot create the communicator: " + communicator.status().to_string());
    return kFailed;
  }
  return run(*communicator, plan);
}
