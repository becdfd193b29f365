// Tests that a scenario whose parts do not fit its topology is refused.
#include <gtest/gtest.h>

#include <string>

#include "sim/simulation/scenario_run.hpp"
#include "sim/simulation/swarm.hpp"

namespace tutti::simulation {
namespace {

/// The outcome of a scenario with three hosts, whose links have the numbers 0 to 5.
Status outcome(const std::string& lines, const std::string& world = "",
               const std::string& communicator = "") {
  const auto scenario = Scenario::parse("topology=single:3 " + world + "\ncommunicator ranks=3 " +
                                        communicator + "\nrun allgather:100\n" + lines);
  return scenario ? run_scenario(*scenario).report.verdict : scenario.status();
}

void expect_refused(const Status& status, const std::string& remedy) {
  EXPECT_EQ(status.code(), Code::invalid_argument) << status.to_string();
  EXPECT_NE(status.message().find(remedy), std::string::npos) << status.message();
}

TEST(ConfigCheck, FaultThatNamesAnUnknownHostOrLink_isRefused) {
  for (const std::string fault :
       {"death 3 at=1ms", "pause 3 at=1ms for=1ms", "path 0>3 at=1ms", "path 3>0 at=1ms",
        "replay 3>0 #1 after=1ms", "replay 0>3 #1 after=1ms", "multicast 3 blocked at=1ms"}) {
    SCOPED_TRACE(fault);
    expect_refused(outcome(fault), fault.substr(0, fault.find(' ')) +
                                       "' names host 3, but the topology has 3 hosts: name a host "
                                       "from 0 to 2");
  }
  for (const std::string fault : {"outage 6 at=1ms for=1ms", "lose 6 7"}) {
    SCOPED_TRACE(fault);
    expect_refused(outcome(fault), fault.substr(0, fault.find(' ')) +
                                       "' names link 6, but the topology has 6 links: name a link "
                                       "from 0 to 5");
  }
  EXPECT_TRUE(outcome("pause 2 at=1ms for=1ms\npath 2>0 at=10s\noutage 5 at=10s for=1ms").ok());
}

TEST(ConfigCheck, LinkWithoutARate_isRefused) {
  expect_refused(outcome("", "rate=0"), "a rate of 0 bit/s: use at least 1");
  EXPECT_TRUE(outcome("", "rate=1000000000").ok());
}

TEST(ConfigCheck, CommunicatorWithoutRanksPulsesOrSubgroups_isRefused) {
  expect_refused(outcome("", "", "pulses=0"), "has 0 pulses in flight: use at least 1");
  expect_refused(outcome("", "", "subgroups=0"), "has 0 subgroups: use 1 to 256");
  expect_refused(outcome("", "", "subgroups=257"), "has 257 subgroups: use 1 to 256");
  expect_refused(outcome("", "", "ranks=0"), "communicator 0 has 0 ranks: use at least 1");
  EXPECT_TRUE(outcome("", "", "subgroups=256").ok());
}

TEST(ConfigCheck, ResultOfTooManyBytes_isRefused) {
  expect_refused(outcome("run allgather:6148914691236517206"),
                 "communicator 0 of 3 ranks runs allgather with 6148914691236517206 bytes, whose "
                 "result has more than 4294967296 bytes: use at most 1431655765");
  expect_refused(outcome("run alltoall:4611686018427387904"), "use at most 477218588");
  expect_refused(outcome("run broadcast:1099511627777", "carry=no"),
                 "more than 1099511627776 bytes: use at most 1099511627776");
}

TEST(ConfigCheck, RootThatCallsNoCollective_isRefused) {
  expect_refused(outcome("run broadcast:100:3"), "the root 3, but 3 ranks call it");
  expect_refused(outcome("communicator ranks=3 aggregator-slots=2\nrun reduce:80:2"),
                 "communicator 1 runs reduce with the root 2, but 2 ranks call it");
  EXPECT_TRUE(outcome("run broadcast:100:2").ok());
}

TEST(ConfigCheck, FaultThatNeedsTheBytesOfAReceivedChunk_isRefusedWithoutThem) {
  for (const std::string action : {"delay", "reorder", "duplicate", "corrupt"}) {
    const std::string fault = "fault " + action + " receiver chunk";
    SCOPED_TRACE(fault);
    expect_refused(outcome(fault, "carry=no"), "set carry=yes");
    EXPECT_TRUE(outcome(fault + " occurrences=1").ok());
  }
  EXPECT_TRUE(outcome("fault drop receiver chunk occurrences=1", "carry=no").ok());
  EXPECT_TRUE(outcome("fault duplicate sender chunk occurrences=1", "carry=no").ok());
}

TEST(ConfigCheck, ScenariosOfASingleRank_areRun) {
  const SwarmOptions options{.ranks = 1, .connections = device::sim::ConnectionKind::software};
  const SwarmSummary summary = run_swarm(1, 100, options);
  EXPECT_FALSE(summary.found) << summary.failure.to_string();
  EXPECT_GT(summary.drawn.one_way + summary.drawn.black_holes, 0u);
  EXPECT_GT(summary.drawn.replays + summary.drawn.strangers, 0u);
}

}  // namespace
}  // namespace tutti::simulation
