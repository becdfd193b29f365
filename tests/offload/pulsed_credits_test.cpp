#include "trigger/pulsed_credits.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.hpp"

namespace tutti::trigger {
namespace {

using Answer = PulsedCredits::Answer;

PulsedCredits make(std::uint64_t capacity, std::uint32_t pulses, std::uint32_t counters = 64) {
  return PulsedCredits::create({.capacity_elements = capacity,
                                .pulses = pulses,
                                .window = std::min(pulses, PulsedCredits::kMaxWindow),
                                .counters = counters})
      .value();
}

TEST(PulsedCredits, Reduction_isCutIntoCreditBatches_ofAQuarterOfTheCapacity) {
  PulsedCredits credits = make(100, 4);
  EXPECT_EQ(credits.pulse_elements(), 25u);
  const auto request = credits.open(110);
  PulsedCredits::Pulse pulse;
  for (std::uint64_t p = 0; p < 4; ++p) {
    ASSERT_EQ(credits.next(request, {}, pulse), Answer::pulse);
    EXPECT_EQ(pulse.number, p);
    EXPECT_EQ(pulse.first_element, 25 * p);
    EXPECT_EQ(pulse.elements, 25u);
  }
  EXPECT_EQ(credits.next(request, {}, pulse), Answer::wait);
  EXPECT_EQ(credits.outstanding_elements(), 100u);
  EXPECT_FALSE(credits.count(0, 24).value())
      << "the credit batch is not complete before its last element";
  EXPECT_EQ(credits.next(request, {}, pulse), Answer::wait);
  EXPECT_TRUE(credits.count(0, 1).value());
  ASSERT_EQ(credits.next(request, {}, pulse), Answer::pulse);
  EXPECT_EQ(pulse.elements, 10u);
  EXPECT_EQ(credits.next(request, {}, pulse), Answer::finished);
  EXPECT_FALSE(credits.complete(request));
  for (std::uint32_t counter = 1; counter < 4; ++counter) {
    EXPECT_TRUE(credits.count(counter, 25).value());
  }
  EXPECT_FALSE(credits.close(request));
  EXPECT_TRUE(credits.count(0, 10).value());
  EXPECT_TRUE(credits.complete(request));
  EXPECT_TRUE(credits.close(request));
}

TEST(PulsedCredits, CapacityNotDivisibleIntoBatches_isNeverExceeded) {
  PulsedCredits credits = make(10, 4);
  EXPECT_EQ(credits.pulse_elements(), 3u);
  EXPECT_EQ(credits.credits(), 3u)
      << "four credit batches of three elements would exceed the capacity";
  const auto request = credits.open(100);
  PulsedCredits::Pulse pulse;
  while (credits.next(request, {}, pulse) == Answer::pulse) {
  }
  EXPECT_EQ(credits.outstanding_elements(), 9u);
}

TEST(PulsedCredits, NextCreditBatch_waitsForTheOldestBatchInFlight) {
  PulsedCredits credits = make(8, 4);
  const auto request = credits.open(100);
  PulsedCredits::Pulse pulse;
  std::vector<std::uint32_t> counters;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(credits.next(request, {}, pulse), Answer::pulse);
    counters.push_back(pulse.counter);
  }
  EXPECT_TRUE(credits.count(counters[1], 2).value());
  EXPECT_EQ(credits.next(request, {}, pulse), Answer::wait)
      << "batch 4 must wait for batch 0, whose counter it needs";
  EXPECT_TRUE(credits.count(counters[0], 2).value());
  EXPECT_EQ(credits.next(request, {}, pulse), Answer::pulse);
  EXPECT_EQ(credits.next(request, {}, pulse), Answer::pulse);
  EXPECT_EQ(pulse.number, 5u);
  EXPECT_EQ(credits.next(request, {}, pulse), Answer::wait);
}

TEST(PulsedCredits, RequestThatGetsNoCredit_isRetried_andThenFails) {
  PulsedCredits credits = PulsedCredits::create({.capacity_elements = 4,
                                                 .pulses = 1,
                                                 .window = 1,
                                                 .counters = 1,
                                                 .attempts = 3,
                                                 .retry_after = Nanoseconds(10)})
                              .value();
  PulsedCredits::Pulse pulse;
  const auto first = credits.open(8);
  const auto second = credits.open(4);
  ASSERT_EQ(credits.next(first, {0}, pulse), Answer::pulse);
  EXPECT_EQ(credits.next(second, {0}, pulse), Answer::retry);
  EXPECT_EQ(credits.retry_at(second), Instant{10});
  for (std::int64_t t = 1; t < 10; ++t) EXPECT_EQ(credits.next(second, {t}, pulse), Answer::retry);
  EXPECT_EQ(credits.counters().retries, 1u)
      << "asking before the retry time must not count as an attempt";
  EXPECT_EQ(credits.next(second, {10}, pulse), Answer::retry);
  EXPECT_EQ(credits.next(second, {20}, pulse), Answer::failed);
  EXPECT_EQ(credits.status(second).code(), Code::resource_exhausted);
  EXPECT_NE(credits.status(second).message().find("3 attempts"), std::string::npos);
  EXPECT_EQ(credits.next(second, {30}, pulse), Answer::failed);
  EXPECT_TRUE(credits.close(second));
  EXPECT_TRUE(credits.count(0, 4).value());
  EXPECT_EQ(credits.next(first, {30}, pulse), Answer::pulse) << "the other request must go on";
}

TEST(PulsedCredits, WaitingRequest_getsTheNextCredit_beforeRequestsThatHaveCredits) {
  PulsedCredits credits = make(4, 4);
  PulsedCredits::Pulse pulse;
  const auto greedy = credits.open(100);
  std::vector<std::uint32_t> counters;
  while (credits.next(greedy, {}, pulse) == Answer::pulse) counters.push_back(pulse.counter);
  ASSERT_EQ(counters.size(), 4u);
  const auto late = credits.open(1);
  EXPECT_EQ(credits.next(late, {}, pulse), Answer::retry);
  EXPECT_TRUE(credits.count(counters[0], 1).value());
  EXPECT_EQ(credits.next(greedy, {}, pulse), Answer::wait);
  EXPECT_EQ(credits.next(late, {}, pulse), Answer::pulse);
}

TEST(PulsedCredits, ResponsesWithoutARequestAreRefused) {
  PulsedCredits credits = make(4, 2);
  EXPECT_EQ(credits.count(0, 1).status().code(), Code::internal);
  EXPECT_EQ(credits.count(1000, 1).status().code(), Code::internal);
  PulsedCredits::Pulse pulse;
  ASSERT_EQ(credits.next(credits.open(2), {}, pulse), Answer::pulse);
  EXPECT_EQ(credits.count(pulse.counter, 3).status().code(), Code::internal);
  EXPECT_EQ(credits.outstanding_elements(), 2u);
}

TEST(PulsedCredits, InvalidSettings_areRefused) {
  const auto code = [](std::uint64_t capacity, std::uint32_t pulses, std::uint32_t window,
                       std::uint32_t counters) {
    return PulsedCredits::create({.capacity_elements = capacity,
                                  .pulses = pulses,
                                  .window = window,
                                  .counters = counters})
        .status()
        .code();
  };
  EXPECT_EQ(code(4, 2, 2, 2), Code::ok);
  EXPECT_EQ(code(0, 1, 1, 1), Code::invalid_argument);
  EXPECT_EQ(code(4, 0, 1, 1), Code::invalid_argument);
  EXPECT_EQ(code(4, 5, 1, 1), Code::invalid_argument);
  EXPECT_EQ(code(4, 2, 0, 1), Code::invalid_argument);
  EXPECT_EQ(code(4, 2, 65, 1), Code::invalid_argument);
  EXPECT_EQ(code(4, 2, 1, 0), Code::invalid_argument);
  EXPECT_EQ(PulsedCredits::create({.requests = 0}).status().code(), Code::invalid_argument);
}

TEST(PulsedCredits, ReductionOfNoElementsIsCompleteAtOnce) {
  PulsedCredits credits = make(4, 2);
  PulsedCredits::Pulse pulse;
  const auto request = credits.open(0);
  EXPECT_EQ(credits.next(request, {}, pulse), Answer::finished);
  EXPECT_TRUE(credits.complete(request));
}

struct Model {
  std::uint32_t nodes = 2;
  std::vector<std::uint32_t> jobs;  ///< number of elements of each job
  PulsedCredits::Settings credits;
  /// Capacity of a node's buffer for contributions to credit batches that the node has not injected
  /// yet.
  std::uint32_t buffer_elements = 0;
};

/// How far one node's contribution to one element has come on its way to another node.
enum class Fate : std::uint8_t { unsent, in_network, buffered, consumed };

/// A model in which every node takes part in every job. When a node injects a credit batch, it
/// sends its contribution for each element of the batch to all nodes. An element is outstanding at
/// a node until the node has consumed the contributions of all nodes for this element.
///
/// The network delivers contributions in any order. The receiving node consumes a contribution at
/// once if this node has the same credit batch in flight. Otherwise the node buffers the
/// contribution if there is room.
struct Simulation {
  std::vector<PulsedCredits> credits;                         ///< credits, indexed by node
  std::vector<std::vector<PulsedCredits::Request>> requests;  ///< requests, indexed by node and job
  std::vector<std::map<std::uint32_t, PulsedCredits::Pulse>>
      pulses;  ///< credit batches in flight, indexed by node, then by element (see fates)
  /// State of each contribution, indexed by element, source and destination. The element numbers
  /// continue from one job to the next.
  std::vector<Fate> fates;

  friend auto operator<=>(const Simulation&, const Simulation&) = default;
};

class Explorer {
 public:
  explicit Explorer(const Model& model) : model_(model) {
    for (const std::uint32_t elements : model.jobs) {
      first_element_.push_back(all_elements_);
      all_elements_ += elements;
    }
  }

  /// Visits every state that can be reached from the initial one.
  void run() {
    Simulation start;
    for (std::uint32_t n = 0; n < model_.nodes; ++n) {
      start.credits.push_back(PulsedCredits::create(model_.credits).value());
      start.requests.emplace_back();
      for (const std::uint32_t elements : model_.jobs) {
        start.requests[n].push_back(start.credits[n].open(elements));
      }
    }
    start.pulses.resize(model_.nodes);
    start.fates.assign(std::size_t{all_elements_} * model_.nodes * model_.nodes, Fate::unsent);
    visit(std::move(start));
    while (!todo_.empty() && !testing::Test::HasFatalFailure()) {
      const Simulation simulation = *todo_.back();
      todo_.pop_back();
      expand(simulation);
    }
  }

  std::size_t worlds() const { return seen_.size(); }
  std::size_t complete_ends() const { return complete_ends_; }
  std::size_t failed_ends() const { return failed_ends_; }
  std::uint64_t most_outstanding() const { return most_outstanding_; }
  std::uint32_t most_buffered() const { return most_buffered_; }

 private:
  Fate& fate(Simulation& simulation, std::uint32_t element, std::uint32_t from,
             std::uint32_t to) const {
    return simulation.fates[(std::size_t{element} * model_.nodes + from) * model_.nodes + to];
  }
  std::uint32_t buffered(Simulation& simulation, std::uint32_t node) const {
    std::uint32_t count = 0;
    for (std::uint32_t e = 0; e < all_elements_; ++e) {
      for (std::uint32_t from = 0; from < model_.nodes; ++from) {
        count += fate(simulation, e, from, node) == Fate::buffered ? 1 : 0;
      }
    }
    return count;
  }

  void visit(Simulation simulation) {
    const auto [at, fresh] = seen_.insert(std::move(simulation));
    if (fresh) todo_.push_back(&*at);
  }

  void expand(const Simulation& simulation) {
    std::size_t moves = 0;
    for (std::uint32_t node = 0; node < model_.nodes; ++node) {
      for (std::uint32_t job = 0; job < model_.jobs.size(); ++job) {
        moves += inject(simulation, node, job) ? 1 : 0;
      }
    }
    for (std::uint32_t e = 0; e < all_elements_; ++e) {
      for (std::uint32_t from = 0; from < model_.nodes; ++from) {
        for (std::uint32_t to = 0; to < model_.nodes; ++to) {
          moves += deliver(simulation, e, from, to) ? 1 : 0;
        }
      }
    }
    if (moves == 0) judge_end(simulation);
  }

  /// Lets a node's host ask for the next credit batch; returns whether the state changed.
  bool inject(const Simulation& before, std::uint32_t node, std::uint32_t job) {
    PulsedCredits::Pulse pulse;
    PulsedCredits credits = before.credits[node];
    const Answer answer = credits.next(before.requests[node][job], {}, pulse);
    // The state changes only if next() injects a credit batch, counts an attempt or fails the
    // request.
    if (credits == before.credits[node]) return false;
    Simulation simulation = before;
    simulation.credits[node] = std::move(credits);
    if (answer == Answer::pulse) {
      for (std::uint64_t i = 0; i < pulse.elements; ++i) {
        const auto e = first_element_[job] + static_cast<std::uint32_t>(pulse.first_element + i);
        simulation.pulses[node][e] = pulse;
        for (std::uint32_t to = 0; to < model_.nodes; ++to) {
          EXPECT_EQ(fate(simulation, e, node, to), Fate::unsent)
              << "a contribution was injected twice";
          fate(simulation, e, node, to) = to == node ? Fate::buffered : Fate::in_network;
        }
        consume_buffered(simulation, e, node);
      }
    }
    check(simulation);
    visit(std::move(simulation));
    return true;
  }

  void consume_buffered(Simulation& simulation, std::uint32_t e, std::uint32_t node) {
    for (std::uint32_t from = 0; from < model_.nodes; ++from) {
      if (fate(simulation, e, from, node) == Fate::buffered) consume(simulation, e, from, node);
    }
  }

  void consume(Simulation& simulation, std::uint32_t e, std::uint32_t from, std::uint32_t to) {
    fate(simulation, e, from, to) = Fate::consumed;
    for (std::uint32_t other = 0; other < model_.nodes; ++other) {
      if (fate(simulation, e, other, to) != Fate::consumed) return;
    }
    const auto counted = simulation.credits[to].count(simulation.pulses[to].at(e).counter, 1);
    EXPECT_TRUE(counted.ok()) << counted.status().to_string();
    simulation.pulses[to].erase(e);
  }

  bool deliver(const Simulation& before, std::uint32_t e, std::uint32_t from, std::uint32_t to) {
    if (before.fates[(std::size_t{e} * model_.nodes + from) * model_.nodes + to] !=
        Fate::in_network) {
      return false;
    }
    Simulation simulation = before;
    if (simulation.pulses[to].contains(e)) {
      consume(simulation, e, from, to);
    } else if (buffered(simulation, to) < model_.buffer_elements) {
      fate(simulation, e, from, to) = Fate::buffered;
    } else {
      return false;  // the receiving node has no room, so the contribution stays in the network
    }
    check(simulation);
    visit(std::move(simulation));
    return true;
  }

  void check(Simulation& simulation) {
    for (std::uint32_t node = 0; node < model_.nodes; ++node) {
      const std::uint64_t outstanding = simulation.credits[node].outstanding_elements();
      ASSERT_LE(outstanding, model_.credits.capacity_elements)
          << "more elements than the capacity are outstanding at node " << node;
      const std::uint32_t waiting = buffered(simulation, node);
      ASSERT_LE(waiting, model_.buffer_elements);
      most_outstanding_ = std::max(most_outstanding_, outstanding);
      most_buffered_ = std::max(most_buffered_, waiting);
    }
  }

  /// Checks a state in which no step is possible: all requests must be complete, or some request
  /// must have failed.
  void judge_end(const Simulation& simulation) {
    bool failed = false;
    bool complete = true;
    for (std::uint32_t node = 0; node < model_.nodes; ++node) {
      for (const auto request : simulation.requests[node]) {
        failed = failed || !simulation.credits[node].status(request).ok();
        complete = complete && simulation.credits[node].complete(request);
      }
    }
    ASSERT_TRUE(failed || complete) << "no step is possible, but no request has failed";
    if (complete) {
      for (const Fate fate : simulation.fates) ASSERT_EQ(fate, Fate::consumed);
    }
    failed_ends_ += failed ? 1 : 0;
    complete_ends_ += complete ? 1 : 0;
  }

  Model model_;
  std::vector<std::uint32_t> first_element_;
  std::uint32_t all_elements_ = 0;
  std::set<Simulation> seen_;
  std::vector<const Simulation*> todo_;
  std::size_t complete_ends_ = 0;
  std::size_t failed_ends_ = 0;
  std::uint64_t most_outstanding_ = 0;
  std::uint32_t most_buffered_ = 0;
};

PulsedCredits::Settings settings(std::uint64_t capacity, std::uint32_t pulses,
                                 std::uint32_t counters, std::uint32_t requests = 1) {
  return {.capacity_elements = capacity,
          .pulses = pulses,
          .window = pulses,
          .requests = requests,
          .counters = counters,
          .attempts = 2};
}

TEST(PulsedCreditsModel, SingleReduction_inEveryOrderOfSteps_completes) {
  struct Case {
    std::uint32_t nodes, elements, capacity, pulses, buffer;
  };
  for (const Case& c :
       {Case{2, 4, 2, 2, 2}, Case{2, 4, 3, 2, 3}, Case{2, 4, 2, 1, 0}, Case{2, 5, 4, 2, 1},
        Case{3, 2, 1, 1, 2}, Case{3, 2, 2, 2, 0}, Case{2, 6, 4, 4, 1}}) {
    Explorer explorer({c.nodes, {c.elements}, settings(c.capacity, c.pulses, 8), c.buffer});
    explorer.run();
    ASSERT_FALSE(HasFatalFailure()) << c.nodes << " nodes, " << c.elements << " elements, capacity "
                                    << c.capacity << ", " << c.pulses << " pulses";
    EXPECT_EQ(explorer.failed_ends(), 0u);
    EXPECT_GE(explorer.complete_ends(), 1u);
    EXPECT_LE(explorer.most_buffered(), (c.nodes - 1) * c.capacity)
        << "a peer must not be ahead by more than the capacity";
    EXPECT_GT(explorer.worlds(), 20u);
  }
}

TEST(PulsedCreditsModel, SeveralReductions_withACreditForEach_complete) {
  struct Case {
    std::vector<std::uint32_t> jobs;
    std::uint32_t capacity, pulses, counters, buffer;
  };
  for (const Case& c :
       {Case{{2, 2}, 2, 2, 2, 0}, Case{{2, 2}, 2, 2, 2, 2}, Case{{3, 1}, 2, 2, 2, 1},
        Case{{2, 2}, 3, 3, 3, 1}, Case{{1, 1, 1}, 3, 3, 3, 1}}) {
    const auto jobs = static_cast<std::uint32_t>(c.jobs.size());
    Explorer explorer({2, c.jobs, settings(c.capacity, c.pulses, c.counters, jobs), c.buffer});
    explorer.run();
    ASSERT_FALSE(HasFatalFailure()) << c.jobs.size() << " jobs, capacity " << c.capacity;
    EXPECT_EQ(explorer.failed_ends(), 0u) << c.jobs.size() << " jobs, capacity " << c.capacity;
    EXPECT_GE(explorer.complete_ends(), 1u);
    EXPECT_LE(explorer.most_outstanding(), c.capacity);
  }
}

TEST(PulsedCreditsModel, ReductionWithoutReservedCredit_endsWithAnError) {
  // The settings reserve a credit for only one of the two reductions. One node may therefore spend
  // both its credits on the first reduction, and the other node may spend both on the second.
  Explorer explorer({2, {2, 2}, settings(2, 2, 2, 1), 2});
  explorer.run();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_GT(explorer.failed_ends(), 0u);
}

TEST(PulsedCreditsModel, TwoReductionsWithOneCredit_completeOrFail) {
  for (const std::uint32_t counters : {1u, 2u}) {
    // There are two reductions and one credit. Two nodes that begin with different reductions would
    // wait for each other.
    Explorer explorer({2, {1, 1}, settings(counters == 1 ? 2 : 1, 1, counters), 1});
    explorer.run();
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_GT(explorer.failed_ends(), 0u);
    EXPECT_GT(explorer.complete_ends(), 0u)
        << "nodes that begin with the same reduction must succeed";
  }
}

TEST(PulsedCredits, LargeRequests_complete_forRandomOrdersOfResponses) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const auto pulses = static_cast<std::uint32_t>(1 + random.below(16));
    PulsedCredits credits = make(pulses + random.below(1000), pulses);
    std::map<std::uint32_t, std::uint64_t> outstanding;
    const std::uint64_t elements = random.below(20'000);
    const auto request = credits.open(elements);
    std::uint64_t injected = 0;
    PulsedCredits::Pulse pulse;
    while (!credits.complete(request)) {
      while (credits.next(request, {}, pulse) == Answer::pulse) {
        ASSERT_EQ(pulse.first_element, injected);
        injected += pulse.elements;
        ASSERT_TRUE(outstanding.emplace(pulse.counter, pulse.elements).second);
        ASSERT_LE(credits.outstanding_elements(), credits.settings().capacity_elements);
      }
      ASSERT_FALSE(outstanding.empty())
          << "the request waits although no batch is in flight, seed " << seed;
      const auto at = std::next(outstanding.begin(),
                                static_cast<std::ptrdiff_t>(random.below(outstanding.size())));
      const std::uint64_t some = 1 + random.below(at->second);
      ASSERT_EQ(credits.count(at->first, some).value(), some == at->second);
      if ((at->second -= some) == 0) outstanding.erase(at);
    }
    EXPECT_EQ(injected, elements);
    EXPECT_EQ(credits.counters().in_flight, 0u);
  }
}

}  // namespace
}  // namespace tutti::trigger
