// A rank that calls collectives over and over: what the failure tests put to death.
//
//   loop_program allgather|broadcast BYTES COUNT [stop=RANK:CALL] [compute=RANK:CALL:MILLISECONDS]
//                [by=multicast|ring|hierarchical]
//
// stop: that rank stops itself (SIGSTOP) before that call. compute: it is away for so long before
// that call, in no collective. "running" is printed once a few calls have been made. An error is
// printed as "failed in S s: STATUS", and the exit status is 3.
#include <fmt/format.h>
#include <signal.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tutti/communicator.hpp"

namespace {

constexpr int kFailed = 3;
constexpr int kUsage = 2;
constexpr std::uint64_t kWarmCalls = 5;

struct Plan {
  bool gather = true;
  tutti::Algorithm algorithm = tutti::Algorithm::multicast;
  std::size_t size_bytes = 0;
  std::uint64_t calls = 0;
  std::uint64_t stop_rank = UINT64_MAX;
  std::uint64_t stop_call = 0;
  std::uint64_t compute_rank = UINT64_MAX;
  std::uint64_t compute_call = 0;
  std::uint64_t compute_ms = 0;
};

/// "1:20:8000" into its numbers; false where it has not as many as there are places.
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

bool read_arguments(int argc, char** argv, Plan& plan) {
  if (argc < 4) return false;
  const std::string_view operation = argv[1];
  plan.gather = operation == "allgather";
  if (!plan.gather && operation != "broadcast") return false;
  if (!read_numbers(argv[2], {&plan.size_bytes}) || !read_numbers(argv[3], {&plan.calls}))
    return false;
  for (int i = 4; i < argc; ++i) {
    const std::string_view extra = argv[i];
    if (extra == "by=ring") plan.algorithm = tutti::Algorithm::ring;
    if (extra == "by=hierarchical") plan.algorithm = tutti::Algorithm("hierarchical");
    const bool known =
        extra == "by=ring" || extra == "by=multicast" || extra == "by=hierarchical" ||
        (extra.starts_with("stop=") &&
         read_numbers(extra.substr(5), {&plan.stop_rank, &plan.stop_call})) ||
        (extra.starts_with("compute=") &&
         read_numbers(extra.substr(8), {&plan.compute_rank, &plan.compute_call, &plan.compute_ms}));
    if (!known) return false;
  }
  return true;
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

tutti::Status call(tutti::Communicator& communicator, const Plan& plan, std::uint64_t number,
                   std::vector<std::byte>& own, std::vector<std::byte>& all) {
  const auto root = static_cast<std::uint32_t>(number % communicator.size());
  const tutti::CollectiveOptions options{.algorithm = plan.algorithm, .will_wait = true};
  auto request = plan.gather ? communicator.allgather(own, all, options)
                             : communicator.broadcast(own, tutti::rank_of(root), options);
  return request ? request->wait() : request.status();
}

int run(tutti::Communicator& communicator, const Plan& plan) {
  using Clock = std::chrono::steady_clock;
  const std::uint64_t me = index(communicator.rank());
  std::vector<std::byte> own(plan.size_bytes);
  std::vector<std::byte> all(plan.gather ? plan.size_bytes * communicator.size() : 0);
  for (std::uint64_t number = 0; number < plan.calls; ++number) {
    if (number == kWarmCalls) say("running");
    if (me == plan.stop_rank && number == plan.stop_call) ::raise(SIGSTOP);
    if (me == plan.compute_rank && number == plan.compute_call) {
      std::this_thread::sleep_for(std::chrono::milliseconds(plan.compute_ms));
    }
    const auto begun = Clock::now();
    const tutti::Status status = call(communicator, plan, number, own, all);
    if (status.ok()) continue;
    const std::chrono::duration<double> took = Clock::now() - begun;
    say(fmt::format("failed in {:.3f} s: {}", took.count(), status.to_string()));
    return kFailed;
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
                 "[compute=RANK:CALL:MILLISECONDS]\n",
                 argv[0]);
    return kUsage;
  }
  auto communicator = tutti::Communicator::create();
  if (!communicator) {
    say("no communicator: " + communicator.status().to_string());
    return kFailed;
  }
  return run(*communicator, plan);
}
