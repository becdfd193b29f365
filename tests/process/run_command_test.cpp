// Tests `tutti run` with real processes, and the bootstrap probe under the launchers of this host.
#include "run.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "descriptor_limit.hpp"
#include "launch/line_prefixer.hpp"
#include "launch/process.hpp"
#include "requirements.hpp"
#include "runtime/bootstrap/store/socket.hpp"

namespace tutti::app::test {
namespace {

constexpr Nanoseconds kSoon = std::chrono::milliseconds(200);

/// A file into which the output of a job goes.
class Output {
 public:
  Output() : fd_(memfd_create("output", MFD_CLOEXEC)) {
    // Only O_APPEND keeps the lines of all ranks: writes by several processes to a memfd at its
    // shared offset overwrite each other.
    EXPECT_EQ(fcntl(fd(), F_SETFL, O_APPEND), 0);
  }
  int fd() const { return fd_.fd(); }
  std::string text() const {
    std::string all;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = pread(fd(), bytes, sizeof bytes, static_cast<off_t>(all.size()))) > 0) {
      all.append(bytes, static_cast<std::size_t>(got));
    }
    return all;
  }
  std::vector<std::string> sorted_lines() const {
    std::istringstream stream(text());
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    return lines;
  }

 private:
  runtime::Socket fd_;
};

struct Job {
  RunOptions options;
  Output out;
  Output err;

  Job(std::uint32_t count, std::vector<std::string> program) {
    options.count = count;
    options.program = std::move(program);
    options.out_fd = out.fd();
    options.err_fd = err.fd();
    options.grace = std::chrono::seconds(60);
  }
  static Job shell(std::uint32_t count, const std::string& script) {
    return Job(count, {"/bin/sh", "-c", script});
  }
  int run() { return run_command(options); }
};

TEST(RunCommand, EveryRank_getsItsEnvironmentVariables) {
  Job job = Job::shell(3,
                       "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE at "
                       "$MASTER_ADDR; echo oops >&2");
  EXPECT_EQ(job.run(), 0);
  EXPECT_EQ(job.out.sorted_lines(), (std::vector<std::string>{"[0] 0 of 3, 0 of 3 at 127.0.0.1",
                                                              "[1] 1 of 3, 1 of 3 at 127.0.0.1",
                                                              "[2] 2 of 3, 2 of 3 at 127.0.0.1"}));
  EXPECT_EQ(job.err.sorted_lines(), (std::vector<std::string>{"[0] oops", "[1] oops", "[2] oops"}));
}

TEST(RunCommand, OutputWithoutPrefixIsUnchanged) {
  Job job = Job::shell(1, "printf 'no newline'");
  job.options.prefix = false;
  EXPECT_EQ(job.run(), 0);
  EXPECT_EQ(job.out.text(), "no newline");
}

TEST(RunCommand, RanksOfATestProgram_exchangeDataOverTheBootstrap) {
  Job job(4, {TUTTI_BOOTSTRAP_PROBE});
  EXPECT_EQ(job.run(), 0) << job.err.text();
  const auto lines = job.out.sorted_lines();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_TRUE(lines[3].starts_with("[3] rank 3 of 4 by env:// at 127.0.0.1:")) << lines[3];
}

TEST(RunCommand, FirstFailedRank_determinesTheExitStatus) {
  Job job = Job::shell(3, "test $RANK = 1 && exit 7; exec sleep 1000");
  job.options.grace = kSoon;
  EXPECT_EQ(job.run(), 7);
  EXPECT_NE(job.err.text().find("rank 1 (process "), std::string::npos);
  EXPECT_NE(job.err.text().find("exited with status 7; the others have 200 ms"), std::string::npos)
      << job.err.text();
}

TEST(RunCommand, RanksThatIgnoreSigtermAreKilled) {
  const std::string ready = testing::TempDir() + "/ready-" + std::to_string(getpid());
  std::filesystem::remove(ready);
  Job job = Job::shell(2, "if test $RANK = 0; then while test ! -e " + ready +
                              "; do sleep 0.01; done; exit 1; fi; trap '' TERM; : > " + ready +
                              "; while :; do sleep 0.05; done");
  job.options.grace = kSoon;
  EXPECT_EQ(job.run(), 1);
  EXPECT_TRUE(std::filesystem::remove(ready)) << "rank 1 did not ignore SIGTERM yet";
}

TEST(RunCommand, OtherRanks_afterOneRankFails_haveTimeToFinish) {
  Job job = Job::shell(2, "test $RANK = 0 && exit 1; sleep 0.3; echo done");
  EXPECT_EQ(job.run(), 1);
  EXPECT_EQ(job.out.text(), "[1] done\n");
}

TEST(RunCommand, RankEndedByASignal_isReportedWithTheSignal) {
  Job job = Job::shell(1, "kill -SEGV $$");
  EXPECT_EQ(job.run(), 128 + SIGSEGV);
  EXPECT_NE(job.err.text().find("was ended by signal 11"), std::string::npos);
}

TEST(RunCommand, TimeoutEndsTheJob) {
  Job job = Job::shell(2, "exec sleep 1000");
  job.options.timeout = kSoon;
  EXPECT_EQ(job.run(), kExitTimeout);
  EXPECT_NE(job.err.text().find("longer than 200 ms"), std::string::npos);
}

TEST(RunCommand, OrphansOfARankAreKilled) {
  Job job = Job::shell(1, "sleep 1000 & echo $!");
  EXPECT_EQ(job.run(), 0);
  const auto pid = static_cast<pid_t>(std::stoi(job.out.text().substr(4)));
  // A killed orphan may stay in the process table for a moment, until its new parent has reaped it.
  std::string state = "R";
  for (int i = 0; i < 1000 && state[0] != 'Z' && kill(pid, 0) == 0; ++i) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name;
    stat >> number >> name >> state;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(state[0] == 'Z' || kill(pid, 0) != 0);
}

TEST(RunCommand, ProgramThatCannotBeStarted_isNamedInTheError) {
  Job missing(2, {"/nonexistent/program"});
  EXPECT_EQ(missing.run(), kExitNotStarted);
  EXPECT_EQ(missing.err.text(),
            "tutti run: rank 0: cannot start '/nonexistent/program': No such file or directory\n");
  Job nothing(1, {});
  EXPECT_EQ(nothing.run(), kExitNotStarted);
  Job many(100000, {"true"});
  EXPECT_EQ(many.run(), kExitNotStarted);
  Job no_address(1, {"true"});
  no_address.options.netns = "lab-h{}";
  EXPECT_EQ(no_address.run(), kExitNotStarted);
  EXPECT_NE(no_address.err.text().find("--master-addr"), std::string::npos);
  Job no_namespace(1, {"true"});
  no_namespace.options.netns = "tutti-no-such-{}";
  no_namespace.options.master_addr = "10.0.0.1";
  EXPECT_EQ(no_namespace.run(), kExitNotStarted);
  EXPECT_NE(no_namespace.err.text().find("/run/netns/tutti-no-such-0"), std::string::npos);
}

TEST(FindProgram, FolderWithTheNameOfTheProgram_isPassedOver) {
  std::string base = "/tmp/tutti-find-XXXXXX";
  ASSERT_NE(mkdtemp(base.data()), nullptr);
  std::filesystem::create_directories(base + "/first/program");
  std::filesystem::create_directories(base + "/second");
  std::ofstream(base + "/second/program") << "#!/bin/sh\n";
  std::filesystem::permissions(base + "/second/program", std::filesystem::perms::owner_all);
  const std::string before = std::getenv("PATH");
  setenv("PATH", (base + "/first:" + base + "/second").c_str(), 1);
  const auto found = launch::find_program("program");
  setenv("PATH", before.c_str(), 1);
  std::filesystem::remove_all(base);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(*found, base + "/second/program");
}

/// Runs a job in a launcher process of its own, and calls `meanwhile` with the launcher's process
/// id once every rank has printed a line. Returns the launcher's exit status.
template <typename Meanwhile>
int launch_and(Job& job, Meanwhile meanwhile) {
  const pid_t launcher = fork();
  if (launcher == 0) _exit(job.run());
  siginfo_t ended{};
  while (job.out.sorted_lines().size() < job.options.count && ended.si_pid == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    waitid(P_PID, static_cast<id_t>(launcher), &ended, WEXITED | WNOHANG | WNOWAIT);
  }
  EXPECT_EQ(ended.si_pid, 0) << "the launcher ended before every rank had printed a line";
  meanwhile(launcher);
  int status = 0;
  waitpid(launcher, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(RunCommand, SignalsAreForwardedToTheRanks) {
  Job job =
      Job::shell(2, "trap 'echo got it; exit 5' INT; echo ready; while :; do sleep 0.05; done");
  EXPECT_EQ(launch_and(job, [](pid_t launcher) { kill(launcher, SIGINT); }), 5);
  const auto lines = job.out.sorted_lines();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "[0] got it"), 1);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "[1] got it"), 1);
}

TEST(RunCommand, SignalToMoreRanksThanDescriptors_isForwarded) {
  const tutti::test::DescriptorLimit few(64);
  Job job = Job::shell(40, "echo ready; exec sleep 1000");
  job.options.prefix = false;
  job.options.timeout = std::chrono::seconds(60);
  EXPECT_EQ(launch_and(job, [](pid_t launcher) { kill(launcher, SIGINT); }), 128 + SIGINT)
      << job.err.text();
}

TEST(RunCommand, RanksDieWithTheLauncher) {
  Job job = Job::shell(1, "echo $$; exec sleep 1000");
  EXPECT_EQ(launch_and(job, [](pid_t launcher) { kill(launcher, SIGKILL); }), -SIGKILL);
  const auto rank = static_cast<pid_t>(std::stoi(job.out.text().substr(4)));
  bool gone = false;
  for (int i = 0; i < 2000 && !gone; ++i) {
    std::ifstream stat("/proc/" + std::to_string(rank) + "/stat");
    std::string number, name, state;
    gone = !(stat >> number >> name >> state) || state == "Z";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(gone);
}

TEST(RunCommand, CommandLineIsParsed) {
  CLI::App app;
  int exit_code = -1;
  add_run_command(app, exit_code);
  app.parse("run -n 2 --no-prefix --grace 1 --timeout 60 -- sh -c 'exit $((RANK + 3))'");
  EXPECT_TRUE(exit_code == 3 || exit_code == 4) << exit_code;
  CLI::App other;
  add_run_command(other, exit_code);
  EXPECT_THROW(other.parse("run -n 0 -- true"), CLI::ParseError);
  EXPECT_THROW(other.parse("run -n 2"), CLI::ParseError);
}

TEST(LinePrefixer, LinesAreReturnedOnlyWhenComplete) {
  launch::LinePrefixer lines("[7] ");
  EXPECT_EQ(lines.append("a"), "");
  EXPECT_EQ(lines.append("b\nc\n\nd"), "[7] ab\n[7] c\n[7] \n");
  EXPECT_EQ(lines.finish(), "[7] d\n");
  EXPECT_EQ(lines.finish(), "");
  const std::string endless(150000, 'x');
  std::string broken = lines.append(endless);
  broken += lines.finish();
  EXPECT_EQ(std::count(broken.begin(), broken.end(), 'x'), 150000);
  EXPECT_EQ(std::count(broken.begin(), broken.end(), '\n'), 3);
}

/// Runs the probe under the launcher of another project. Each rank must print the description of
/// the bootstrap for this launcher.
void expect_probe_by(const std::string& launcher, const std::string& method) {
  // The test itself may run under a launcher. The variables of that launcher are unset, because
  // they would make the tested launcher act as a rank of that job.
  Job job = Job::shell(1,
                       "unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT LOCAL_RANK "
                       "LOCAL_WORLD_SIZE TUTTI_RUN_ID; exec " +
                           launcher + " " + TUTTI_BOOTSTRAP_PROBE);
  job.options.timeout = std::chrono::seconds(90);
  EXPECT_EQ(job.run(), 0) << job.err.text();
  const auto lines = job.out.sorted_lines();
  ASSERT_EQ(lines.size(), 4u) << job.out.text();
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const std::string start = "[0] rank " + std::to_string(rank) + " of 4 by " + method;
    EXPECT_TRUE(lines[rank].starts_with(start)) << lines[rank];
  }
}

bool present(const char* program) {
  return std::system((std::string("command -v ") + program + " >/dev/null 2>&1").c_str()) == 0;
}

TEST(Launchers, RanksStartedByMpich_bootstrapByPmi) {
  if (!present("mpirun.mpich")) return tutti::test::skip_without("mpi", "no mpirun.mpich");
  expect_probe_by("mpirun.mpich -n 4", "pmi:// (PMI-1)");
}

TEST(Launchers, RanksStartedByOpenMpi_bootstrapByPmix) {
  if (!present("mpirun.openmpi")) return tutti::test::skip_without("pmix", "no mpirun.openmpi");
  expect_probe_by("mpirun.openmpi -n 4 --allow-run-as-root --oversubscribe", "pmix://");
}

}  // namespace
}  // namespace tutti::app::test
