// A rank that reduces through aggregators repeatedly, for the tests of `tutti aggregator` and for
// measurements on shaped links.
//
//   aggregated_program allreduce|reduce_scatter|reduce|pair BYTES COUNT [order=rank|ring]
//                      [warm=N] [apart]
//
// BYTES is the size of a rank's vector or, for reduce_scatter and pair, the size of a block. COUNT
// is the number of timed calls, after N calls that are not timed. `pair` runs an Allgather by
// multicast and a Reduce-Scatter at the same time ([Khalilov24] appendix B). The elements are small
// whole numbers of type float32, so that every result is known.
//
// The environment describes the ranks, and TUTTI_AGGREGATORS the aggregators. The ranks begin each
// call together, except with `apart`. The program prints "running" after the first call and "done"
// at the end; before "done", rank 0 also prints the least, median and greatest time of a call, and
// each in-network counter that is not zero. On an error the program prints "failed in S s: STATUS"
// and exits with status 3.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/multicast/multicast_operation.hpp"
#include "runtime/aggregator/aggregation_options.hpp"
#include "runtime/aggregator/aggregator_client.hpp"
#include "runtime/bootstrap/detect.hpp"
#include "runtime/communicator/communicator_impl.hpp"
#include "runtime/progress/clock.hpp"

namespace {

using namespace tutti;           // NOLINT: no other file includes this source file
using namespace tutti::runtime;  // NOLINT

constexpr int kFailed = 3;
constexpr int kUsage = 2;

struct Plan {
  std::string operation;
  std::size_t bytes = 0;
  std::uint64_t calls = 0;
  std::uint64_t warm = 0;
  bool together = true;
  std::optional<engine::FoldOrder> order;
};

bool read_number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_arguments(int argc, char** argv, Plan& plan) {
  if (argc < 4) return false;
  plan.operation = argv[1];
  const bool known = plan.operation == "allreduce" || plan.operation == "reduce_scatter" ||
                     plan.operation == "reduce" || plan.operation == "pair";
  if (!known || !read_number(argv[2], plan.bytes) || !read_number(argv[3], plan.calls)) {
    return false;
  }
  for (int i = 4; i < argc; ++i) {
    const std::string_view extra = argv[i];
    if (extra == "order=rank") {
      plan.order = engine::FoldOrder::rank;
    } else if (extra == "order=ring") {
      plan.order = engine::FoldOrder::ring;
    } else if (extra == "apart") {
      plan.together = false;
    } else if (!extra.starts_with("warm=") || !read_number(extra.substr(5), plan.warm)) {
      return false;
    }
  }
  return plan.bytes % sizeof(float) == 0;
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

/// The calls that one rank of the job makes.
class Job {
 public:
  Job(const Plan& plan, CommunicatorImpl& state, Aggregation& aggregation)
      : plan_(plan), state_(state), aggregation_(aggregation) {
    const std::size_t floats = plan.bytes / sizeof(float);
    input_.resize(scatters() ? floats * state.size() : floats);
    output_.resize(floats);
    if (plan.operation == "pair") gathered_.resize(floats * state.size());
  }

  Status barrier() {
    if (!plan_.together) return {};
    auto request =
        state_.start({.collective = Collective::barrier, .options = {.will_wait = true}});
    if (!request) return request.status();
    const auto completion = (*request)->completion;
    state_.progress()->wait(*completion, kNever);
    return completion->status;
  }

  Status call(std::uint64_t number) {
    for (std::size_t i = 0; i < input_.size(); ++i) input_[i] = value(number, i, me());
    std::fill(output_.begin(), output_.end(), 0.0f);
    if (Status status = barrier(); !status) return status;
    const auto begin = std::chrono::steady_clock::now();
    const auto gather = start_gather();
    Aggregation::Outcome outcome = start();
    if (!outcome) return outcome.status();
    state_.progress()->wait(**outcome, kNever);
    if (gather) state_.progress()->wait(*gather, kNever);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (Status status = (*outcome)->status; !status) return status;
    if (gather && !gather->status.ok()) return gather->status;
    // All ranks must have their results before any rank verifies its own, because verification
    // takes processor time.
    if (Status status = barrier(); !status) return status;
    return check(number);
  }

  double seconds() const { return seconds_; }

 private:
  std::uint32_t me() const { return index(state_.rank()); }
  static float value(std::uint64_t number, std::size_t at, std::uint32_t rank) {
    return static_cast<float>((number * 31 + at * 7 + rank * 3) % 1021);
  }

  bool scatters() const { return plan_.operation == "reduce_scatter" || plan_.operation == "pair"; }

  /// The request that sends the first block of every rank's vector to all ranks; null without
  /// `pair`.
  std::shared_ptr<engine::Completion> start_gather() {
    if (gathered_.empty()) return nullptr;
    auto operation = engine::MulticastOperation::allgather(
        std::as_bytes(std::span(input_).first(output_.size())),
        std::as_writable_bytes(std::span(gathered_)));
    const auto completion = operation->completion();
    state_.progress()->submit(state_.context(), std::move(operation), true);
    return completion;
  }

  Aggregation::Outcome start() {
    const auto input = std::as_bytes(std::span(input_));
    const auto output = std::as_writable_bytes(std::span(output_));
    const ReductionCall call{.order = plan_.order, .factor = {}, .will_wait = true};
    if (plan_.operation == "allreduce") return aggregation_.allreduce(input, output, call);
    if (plan_.operation == "reduce") return aggregation_.reduce(input, output, rank_of(0), call);
    return aggregation_.reduce_scatter(input, output, call);
  }

  Status check(std::uint64_t number) const {
    if (plan_.operation == "reduce" && me() != 0) return {};
    const std::size_t first = scatters() ? me() * output_.size() : 0;
    for (std::size_t i = 0; i < gathered_.size(); ++i) {
      const auto from = static_cast<std::uint32_t>(i / output_.size());
      if (gathered_[i] == value(number, i % output_.size(), from)) continue;
      return Status(Code::internal,
                    fmt::format("call {}: element {} of the gathered vector is wrong", number, i));
    }
    for (std::size_t i = 0; i < output_.size(); ++i) {
      float sum = 0;
      for (std::uint32_t r = 0; r < state_.size(); ++r) sum += value(number, first + i, r);
      if (output_[i] == sum) continue;
      return Status(Code::internal, fmt::format("call {}: element {} is {} instead of {}", number,
                                                i, output_[i], sum));
    }
    return {};
  }

  const Plan& plan_;
  CommunicatorImpl& state_;
  Aggregation& aggregation_;
  std::vector<float> input_;
  std::vector<float> output_;
  std::vector<float> gathered_;
  double seconds_ = 0;
};

int fail(const Status& status, std::chrono::steady_clock::time_point since) {
  say(fmt::format("failed in {:.3f} s: {}",
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count(),
                  status.to_string()));
  return kFailed;
}

int run(const Plan& plan) {
  auto begin = std::chrono::steady_clock::now();
  CommunicatorOptions options;
  auto bootstrap = detect(options.create_timeout);
  if (!bootstrap) return fail(bootstrap.status(), begin);
  auto state = CommunicatorImpl::create(**bootstrap, options, nullptr, {});
  if (!state) return fail(state.status(), begin);
  auto aggregation = Aggregation::create(**bootstrap, *with_aggregators_of_environment(options),
                                         (*state)->progress(), (*state)->child_key(), {});
  if (!aggregation) return fail(aggregation.status(), begin);
  Job rank(plan, **state, **aggregation);
  std::vector<double> times;
  for (std::uint64_t i = 0; i < plan.calls + plan.warm; ++i) {
    begin = std::chrono::steady_clock::now();
    if (Status status = rank.call(i); !status) return fail(status, begin);
    if (i == 0) say("running");
    if (i >= plan.warm) times.push_back(rank.seconds());
  }
  std::sort(times.begin(), times.end());
  if (index((*state)->rank()) == 0 && !times.empty()) {
    say(fmt::format("{} bytes {}: min {:.3f} ms, median {:.3f} ms, max {:.3f} ms", plan.operation,
                    plan.bytes, times.front() * 1e3, times[times.size() / 2] * 1e3,
                    times.back() * 1e3));
    for (const auto& [name, value] : (*aggregation)->counters()) {
      if (name.starts_with("in_network_") && value > 0) say(fmt::format("{} {}", name, value));
    }
  }
  (void)rank.barrier();
  say("done");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  if (!read_arguments(argc, argv, plan)) {
    std::fputs("usage: aggregated_program allreduce|reduce_scatter|reduce|pair BYTES COUNT ...\n",
               stderr);
    return kUsage;
  }
  return run(plan);
}
