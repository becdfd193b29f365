// A rank that calls collectives repeatedly, for the failure tests.
//
//   loop_program barrier|broadcast|allgather|alltoall|allreduce BYTES COUNT [stop=RANK:CALL]
//                [compute=RANK:CALL:MILLISECONDS]... [by=ALGORITHM] [root=RANK] [end=FILE]
//                [prepared=1] [starve=NUMBER] [counters=1] [report=1]
//
// BYTES is the size of a rank's block or vector. stop: the rank stops itself (SIGSTOP) before the
// call of this number. compute: before the call the rank prints "computes" and sleeps for the given
// time, as if it computed outside any collective. by: the algorithm, by default multicast;
// "automatic" lets the library choose. root: the root of every Broadcast, by default each rank in
// turn. end: SIGTERM at rank 0 ends the loops of all ranks after the same call, whose number rank 0
// writes to this file. prepared: the collective is prepared once. starve: SIGUSR2 lets the
// NUMBER-th allocation from then on fail. counters: at the end the rank prints "ran N calls in S s"
// for the calls after "running", and then "counter NAME VALUE" for each counter that is not zero.
// report: at the end the rank prints a line of JSON.
//
// The program prints "running as process PID" after a few calls. On an error it prints "failed in S
// s: STATUS" and exits with status 3. On wrong data it prints "wrong data" and exits with 4.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "failing_allocation.hpp"
#include "tutti/communicator.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using tutti::Collective;

constexpr int kFailed = 3;
constexpr int kWrongData = 4;
constexpr int kUsage = 2;
constexpr std::uint64_t kWarmCalls = 5;
/// Number of calls that still run after the end request. No rank can be this many calls ahead of
/// rank 0, so every rank learns of the request before the last call.
constexpr std::uint64_t kLastCalls = 32;
/// The report lists calls that took at least this time.
constexpr std::chrono::milliseconds kLongCall{5};
constexpr std::size_t kMaxLongCalls = 4096;

volatile std::sig_atomic_t g_end_requested = 0;
long g_starve = 0;  ///< number of the allocation that fails, counted from SIGUSR2

void request_end(int) { g_end_requested = 1; }
void starve(int) { tutti::test::fail_allocation(g_starve); }

struct Plan {
  Collective collective = Collective::barrier;
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
  std::uint64_t prepared = 0;
  std::uint64_t starve = 0;
  std::uint64_t counters = 0;
  std::uint64_t report = 0;
  std::string end_file;
};

// ---- arguments ----------------------------------------------------------------------------------

/// Parses numbers separated by colons, such as "1:20:8000", into `places`; false if the text does
/// not have exactly one number for each place.
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
    plan.algorithm = value == "automatic" ? tutti::Algorithm() : tutti::Algorithm(value);
    return !value.empty();
  }
  if (name == "end") return !(plan.end_file = value).empty();
  if (name == "prepared") return read_numbers(value, {&plan.prepared});
  if (name == "starve") return read_numbers(value, {&plan.starve});
  if (name == "counters") return read_numbers(value, {&plan.counters});
  if (name == "report") return read_numbers(value, {&plan.report});
  if (name == "root") return read_numbers(value, {&plan.root});
  if (name == "stop") return read_numbers(value, {&plan.stop_rank, &plan.stop_call});
  if (name != "compute") return false;
  Plan::Absence& one = plan.absences.emplace_back();
  return read_numbers(value, {&one.rank, &one.call, &one.milliseconds});
}

bool read_arguments(int argc, char** argv, Plan& plan) {
  if (argc < 4) return false;
  constexpr std::array kKnown{Collective::barrier, Collective::broadcast, Collective::allgather,
                              Collective::alltoall, Collective::allreduce};
  const auto* const known = std::find_if(kKnown.begin(), kKnown.end(), [&](Collective one) {
    return std::string_view(argv[1]) == to_string(one);
  });
  if (known == kKnown.end()) return false;
  plan.collective = *known;
  if (!read_numbers(argv[2], {&plan.size_bytes}) || !read_numbers(argv[3], {&plan.calls}))
    return false;
  for (int i = 4; i < argc; ++i) {
    if (!read_option(argv[i], plan)) return false;
  }
  // A prepared Broadcast has one root for all calls, so the option `root` must be given.
  return plan.prepared == 0 || plan.collective != Collective::broadcast || plan.root != UINT64_MAX;
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

// ---- data ---------------------------------------------------------------------------------------

/// The byte that a rank contributes to a call, different for any two ranks and any two consecutive
/// calls.
std::byte contribution(std::uint64_t rank, std::uint64_t call) {
  return static_cast<std::byte>((rank * 31 + call * 7) % 255 + 1);
}

/// The buffers that all calls use, and the values that they must contain.
class Buffers {
 public:
  Buffers(const Plan& plan, std::uint64_t me, std::uint64_t ranks)
      : plan_(plan), me_(me), ranks_(ranks) {
    const bool blocks = plan.collective == Collective::alltoall;
    const bool gathers = blocks || plan.collective == Collective::allgather;
    own_.resize(blocks ? plan.size_bytes * ranks : plan.size_bytes);
    all_.resize(gathers ? plan.size_bytes * ranks : plan.size_bytes);
  }

  std::uint64_t root(std::uint64_t call) const {
    return plan_.root == UINT64_MAX ? call % ranks_ : plan_.root;
  }

  void fill(std::uint64_t call) {
    switch (plan_.collective) {
      case Collective::broadcast:
        if (me_ == root(call)) std::fill(all_.begin(), all_.end(), contribution(me_, call));
        return;
      case Collective::alltoall:
        for (std::uint64_t to = 0; to < ranks_; ++to) {
          const auto block = std::span(own_).subspan(to * plan_.size_bytes, plan_.size_bytes);
          std::fill(block.begin(), block.end(), contribution(me_, call + to));
        }
        return;
      default:
        std::fill(own_.begin(), own_.end(), contribution(me_, call));
    }
  }

  bool right(std::uint64_t call) const {
    switch (plan_.collective) {
      case Collective::barrier:
        return true;
      case Collective::broadcast:
        return all_are(all_, contribution(root(call), call));
      case Collective::allreduce:
        return sums_are_right(call);
      default:
        for (std::uint64_t from = 0; from < ranks_; ++from) {
          const auto block = std::span(all_).subspan(from * plan_.size_bytes, plan_.size_bytes);
          const std::uint64_t place = plan_.collective == Collective::alltoall ? me_ : 0;
          if (!all_are(block, contribution(from, call + place))) return false;
        }
        return true;
    }
  }

  tutti::CollectiveCall call(std::uint64_t number) {
    const tutti::CollectiveOptions options{.algorithm = plan_.algorithm, .will_wait = true};
    if (plan_.collective == Collective::barrier) return {.options = options};
    return {.collective = plan_.collective,
            .send = plan_.collective == Collective::broadcast ? std::span<const std::byte>()
                                                              : std::span<const std::byte>(own_),
            .receive = all_,
            .root = tutti::rank_of(static_cast<std::uint32_t>(root(number))),
            .reduction = {tutti::DataType::uint8, tutti::ReduceOperation::sum},
            .options = options};
  }

 private:
  static bool all_are(std::span<const std::byte> bytes, std::byte value) {
    return std::all_of(bytes.begin(), bytes.end(), [&](std::byte one) { return one == value; });
  }
  bool sums_are_right(std::uint64_t call) const {
    unsigned sum = 0;
    for (std::uint64_t rank = 0; rank < ranks_; ++rank)
      sum += std::to_integer<unsigned>(contribution(rank, call));
    return all_are(all_, static_cast<std::byte>(sum));
  }

  const Plan& plan_;
  std::uint64_t me_;
  std::uint64_t ranks_;
  std::vector<std::byte> own_;
  std::vector<std::byte> all_;
};

// ---- the end of the loop ------------------------------------------------------------------------

/// The number of calls after which the loops of all ranks end, in a file that all ranks map.
class LastCall {
 public:
  bool open(const std::string& path) {
    if (path.empty()) return true;
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, sizeof(std::uint64_t)) != 0) return false;
    void* const memory =
        ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (memory == MAP_FAILED) return false;
    place_ = static_cast<std::uint64_t*>(memory);
    return true;
  }
  /// True if the loop ends before the call with the index `number`.
  bool passed(std::uint64_t me, std::uint64_t number) {
    if (place_ == nullptr) return false;
    std::atomic_ref<std::uint64_t> last(*place_);
    if (me == 0 && g_end_requested != 0 && last.load() == 0) last.store(number + kLastCalls);
    return last.load() != 0 && number >= last.load();
  }

 private:
  std::uint64_t* place_ = nullptr;  ///< number of calls in all; 0: no end is requested
};

double seconds_of(Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

/// The calls of one rank and how they end.
class Loop {
 public:
  Loop(const Plan& plan, tutti::Communicator& communicator)
      : plan_(plan),
        communicator_(communicator),
        me_(index(communicator.rank())),
        buffers_(plan, me_, communicator.size()) {
    long_calls_.reserve(kMaxLongCalls);
  }

  int run() {
    if (!last_call_.open(plan_.end_file)) {
      say("cannot map " + plan_.end_file + ": " + std::strerror(errno));
      return kUsage;
    }
    if (me_ == 0 && !plan_.end_file.empty()) ::signal(SIGTERM, request_end);
    if (plan_.starve != 0) ::signal(SIGUSR2, starve);
    if (plan_.prepared != 0) {
      auto prepared = communicator_.prepare(buffers_.call(0));
      if (!prepared) return end("failed", prepared.status(), kFailed);
      prepared_.emplace(std::move(*prepared));
    }
    while (number_ < plan_.calls && !last_call_.passed(me_, number_)) {
      pause();
      buffers_.fill(number_);
      begun_ = Clock::now();
      const tutti::Status status = call();
      if (!status) return end("failed", status, kFailed);
      note_time(Clock::now());
      if (!buffers_.right(number_)) return end("wrong data", {}, kWrongData);
      ++number_;
    }
    return end("complete", {}, 0);
  }

 private:
  /// Carries out the pauses that the arguments request before the present call: stops this process,
  /// or sleeps as if it computed.
  void pause() {
    const tutti::test::ExemptFromFailure program;
    if (number_ == kWarmCalls) {
      say(fmt::format("running as process {}", ::getpid()));
      running_since_ = Clock::now();
    }
    if (me_ == plan_.stop_rank && number_ == plan_.stop_call) ::raise(SIGSTOP);
    for (const Plan::Absence& one : plan_.absences) {
      if (me_ != one.rank || number_ != one.call) continue;
      say("computes");
      std::this_thread::sleep_for(std::chrono::milliseconds(one.milliseconds));
    }
  }

  tutti::Status call() {
    auto request = prepared_ ? prepared_->start() : communicator_.start(buffers_.call(number_));
    return request ? request->wait() : request.status();
  }

  void note_time(Clock::time_point ended) {
    if (ended - begun_ < kLongCall || long_calls_.size() == kMaxLongCalls) return;
    long_calls_.push_back({seconds_of(begun_), seconds_of(ended)});
  }

  int end(const std::string& outcome, const tutti::Status& status, int exit_status) {
    const tutti::test::ExemptFromFailure program;
    const auto ended = Clock::now();
    if (!status) {
      const std::chrono::duration<double> took = ended - begun_;
      say(fmt::format("failed in {:.3f} s: {}", took.count(), status.to_string()));
    } else if (exit_status == kWrongData) {
      say(fmt::format("wrong data in call {}", number_));
    }
    if (plan_.counters != 0) {
      const std::chrono::duration<double> took = ended - running_since_;
      say(fmt::format("ran {} calls in {:.6f} s", number_ - std::min(number_, kWarmCalls),
                      took.count()));
    }
    const auto counters = communicator_.counters();
    for (const auto& [name, value] : counters) {
      if (plan_.counters != 0 && value != 0) say(fmt::format("counter {} {}", name, value));
    }
    if (plan_.report != 0) {
      nlohmann::json ranks = nlohmann::json::array();
      for (const tutti::Rank one : status.ranks()) ranks.push_back(index(one));
      nlohmann::json counted = nlohmann::json::object();
      for (const auto& [name, value] : counters) {
        if (value != 0) counted[std::string(name)] = value;
      }
      say(nlohmann::json{{"rank", me_},
                         {"outcome", outcome},
                         {"error", status.ok() ? "" : status.to_string()},
                         {"blamed", ranks},
                         {"calls", number_},
                         {"ended_s", seconds_of(ended)},
                         {"long_calls_s", long_calls_},
                         {"allocation_failed", tutti::test::allocation_failed()},
                         {"counters", counted}}
              .dump());
    }
    if (exit_status == 0) say("complete");
    return exit_status;
  }

  const Plan& plan_;
  tutti::Communicator& communicator_;
  std::uint64_t me_;
  Buffers buffers_;
  LastCall last_call_;
  std::optional<tutti::Prepared> prepared_;
  std::uint64_t number_ = 0;  ///< index of the present call, from 0
  Clock::time_point running_since_ = Clock::now();
  Clock::time_point begun_;                        ///< start of the present call
  std::vector<std::array<double, 2>> long_calls_;  ///< begin and end of each long call, in seconds
};

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  if (!read_arguments(argc, argv, plan)) {
    std::fprintf(stderr, "usage: %s COLLECTIVE BYTES COUNT [OPTION]...: see loop_program.cpp\n",
                 argv[0]);
    return kUsage;
  }
  g_starve = static_cast<long>(plan.starve);
  auto communicator = tutti::Communicator::create();
  if (!communicator) {
    say("cannot create the communicator: " + communicator.status().to_string());
    return kFailed;
  }
  return Loop(plan, *communicator).run();
}
