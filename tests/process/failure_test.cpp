// If a rank dies, freezes or is cut off, the collective ends at every survivor with an error that
// names the rank. The ranks are processes, each on a host of a lab.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "lab/lab.hpp"
#include "requirements.hpp"

namespace tutti::lab {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Time after which a rank counts as hanging; only a failing test waits this long.
constexpr milliseconds kHang{20'000};
constexpr milliseconds kStart{40'000};
constexpr int kFailed = 3;

/// The text with which an error message begins to name a rank, such as "rank 3 (".
std::string rank_name(int rank) { return "rank " + std::to_string(rank) + " ("; }

/// One process of the job and its output.
class RankProcess {
 public:
  RankProcess() : output_(memfd_create("rank", MFD_CLOEXEC)) {}
  RankProcess(RankProcess&&) = default;
  ~RankProcess() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      (void)launch::wait_for(pid_);
    }
  }

  int output() const { return output_.get(); }
  void started(pid_t pid) { pid_ = pid; }
  void signal(int number) const { ::kill(pid_, number); }

  std::string text() const {
    std::string all;
    char bytes[4096];
    ssize_t got = 0;
    while ((got = ::pread(output(), bytes, sizeof bytes, static_cast<off_t>(all.size()))) > 0) {
      all.append(bytes, static_cast<std::size_t>(got));
    }
    return all;
  }
  bool said(const std::string& what) const { return text().find(what) != std::string::npos; }

  /// Whether waitid() reports that the process is stopped.
  bool stopped() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  }

  /// The exit status of the process, if it has ended.
  std::optional<int> ended() {
    int status = 0;
    if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  device::Descriptor output_;
  pid_t pid_ = -1;
};

bool within(milliseconds limit, const std::function<bool()>& holds) {
  const auto end = steady_clock::now() + limit;
  while (!holds()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

/// A lab in which each host runs the loop program.
class Job {
 public:
  /// `prepare` changes the lab before the ranks start.
  static std::unique_ptr<Job> start(
      int ranks, std::vector<std::string> arguments, std::vector<std::string> environment = {},
      const std::function<Status(Lab&)>& prepare = [](Lab&) { return Status(); }) {
    LabOptions options;
    options.hosts = ranks;
    auto lab = Lab::create(options);
    if (!lab) {
      ADD_FAILURE() << lab.status().to_string();
      return nullptr;
    }
    if (Status status = prepare(*lab); !status) {
      ADD_FAILURE() << status.to_string();
      return nullptr;
    }
    std::unique_ptr<Job> job(new Job(std::move(*lab)));
    arguments.insert(arguments.begin(), TUTTI_LOOP_PROGRAM);
    arguments.push_back("report=1");
    for (int rank = 0; rank < ranks; ++rank) {
      if (!job->spawn(rank, arguments, environment)) return nullptr;
    }
    return job;
  }

  bool all_running() const {
    for (const RankProcess& rank : ranks_) {
      if (!rank.said("running")) return false;
    }
    return true;
  }
  RankProcess& rank(int number) { return ranks_[static_cast<std::size_t>(number)]; }
  int size() const { return static_cast<int>(ranks_.size()); }
  Lab& lab() { return lab_; }

  /// Waits until these ranks have ended. Returns the seconds since `from` and sets each exit
  /// status.
  double await(const std::vector<int>& numbers, steady_clock::time_point from,
               std::vector<int>& statuses) {
    statuses.assign(numbers.size(), -1);
    within(kHang, [&] {
      bool all = true;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (statuses[i] >= 0) continue;
        statuses[i] = rank(numbers[i]).ended().value_or(-1);
        all &= statuses[i] >= 0;
      }
      return all;
    });
    return std::chrono::duration<double>(steady_clock::now() - from).count();
  }

 private:
  explicit Job(Lab lab) : lab_(std::move(lab)), ranks_(static_cast<std::size_t>(lab_.hosts())) {}

  bool spawn(int number, const std::vector<std::string>& arguments,
             const std::vector<std::string>& extra) {
    launch::SpawnRequest request;
    request.arguments = arguments;
    request.environment = {"RANK=" + std::to_string(number),
                           "WORLD_SIZE=" + std::to_string(lab_.hosts()),
                           "LOCAL_RANK=0",
                           "MASTER_ADDR=" + lab_.address(0),
                           "MASTER_PORT=29500",
                           "TUTTI_INTERFACE=eth0"};
    request.environment.insert(request.environment.end(), extra.begin(), extra.end());
    request.output = request.error = rank(number).output();
    request.die_with_launcher = true;
    auto pid = lab_.spawn_on(number, std::move(request));
    EXPECT_TRUE(pid) << pid.status().to_string();
    if (pid) rank(number).started(*pid);
    return pid.ok();
  }

  Lab lab_;
  std::vector<RankProcess> ranks_;
};

std::vector<int> all_but(int ranks, int lost) {
  std::vector<int> others;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != lost) others.push_back(rank);
  }
  return others;
}

class Failure : public testing::Test {
 protected:
  void SetUp() override {
    const LabSupport support = lab_support();
    if (!support.temporary) return test::skip_without("lab", support.temporary.to_string());
  }
};

/// Expects that the report of a rank blames the lost rank and at most one rank more, because a
/// broken path has two ends. The text of an error may also name the rank that reported the loss.
void expect_blamed(const std::string& text, int lost) {
  const std::size_t begin = text.rfind("{\"allocation_failed\"");
  ASSERT_NE(begin, std::string::npos) << text;
  const auto report = nlohmann::json::parse(text.substr(begin, text.find('\n', begin) - begin));
  const auto blamed = report.at("blamed").get<std::vector<int>>();
  EXPECT_EQ(std::count(blamed.begin(), blamed.end(), lost), 1) << text;
  EXPECT_LE(blamed.size(), 2u) << text;
}

/// Expects that the survivors end, each with an error that names the lost rank.
void expect_named(Job& job, int lost, steady_clock::time_point fault) {
  const std::vector<int> survivors = all_but(job.size(), lost);
  std::vector<int> statuses;
  const double seconds = job.await(survivors, fault, statuses);
  for (std::size_t i = 0; i < survivors.size(); ++i) {
    const std::string text = job.rank(survivors[i]).text();
    EXPECT_EQ(statuses[i], kFailed) << "rank " << survivors[i] << " said: " << text;
    EXPECT_NE(text.find(rank_name(lost)), std::string::npos)
        << "rank " << survivors[i] << " does not name rank " << lost << ": " << text;
    expect_blamed(text, lost);
  }
  std::printf("[ figures  ] rank %d of %d: every survivor had ended after %.3f s\n", lost,
              job.size(), seconds);
}

enum class Fault { killed, frozen, cut };

struct Case {
  const char* operation;
  Fault fault;
  int ranks;
  int lost;
  const char* algorithm = "multicast";
};

void PrintTo(const Case& one, std::ostream* out) {
  static constexpr const char* kNames[] = {"Killed", "Frozen", "Cut"};
  *out << one.algorithm << "_" << one.operation << kNames[static_cast<int>(one.fault)] << "Rank"
       << one.lost << "Of" << one.ranks;
}

class Lost : public Failure, public testing::WithParamInterface<Case> {};

INSTANTIATE_TEST_SUITE_P(
    Failure, Lost,
    testing::Values(Case{"allgather", Fault::killed, 4, 2}, Case{"allgather", Fault::frozen, 4, 2},
                    Case{"allgather", Fault::cut, 4, 2}, Case{"broadcast", Fault::killed, 4, 0},
                    Case{"broadcast", Fault::frozen, 4, 3}, Case{"broadcast", Fault::cut, 4, 1},
                    Case{"allgather", Fault::killed, 2, 0}, Case{"allgather", Fault::frozen, 2, 1},
                    Case{"broadcast", Fault::cut, 2, 0}, Case{"allgather", Fault::killed, 8, 5},
                    Case{"broadcast", Fault::frozen, 8, 0}, Case{"allgather", Fault::cut, 8, 3},
                    Case{"allgather", Fault::frozen, 5, 2, "ring"},
                    Case{"broadcast", Fault::killed, 5, 1, "ring"}),
    testing::PrintToStringParamName());

TEST_P(Lost, RankThatDiesFreezesOrIsCutOff_isNamedByEverySurvivor) {
  const Case& one = GetParam();
  auto job = Job::start(
      one.ranks, {one.operation, "1048576", "1000000000", std::string("by=") + one.algorithm});
  ASSERT_NE(job, nullptr);
  ASSERT_TRUE(within(kStart, [&] { return job->all_running(); })) << job->rank(0).text();
  const auto fault = steady_clock::now();
  if (one.fault == Fault::killed) job->rank(one.lost).signal(SIGKILL);
  if (one.fault == Fault::frozen) job->rank(one.lost).signal(SIGSTOP);
  if (one.fault == Fault::cut) {
    const Status cut = job->lab().link_down(one.lost);
    ASSERT_TRUE(cut) << cut.to_string();
  }
  expect_named(*job, one.lost, fault);
  if (one.fault != Fault::cut) return;
  // The rank that was cut off reaches no other rank. Its error must name at least one of them.
  std::vector<int> statuses;
  job->await({one.lost}, fault, statuses);
  const std::string text = job->rank(one.lost).text();
  EXPECT_EQ(statuses[0], kFailed) << text;
  bool named = false;
  for (int rank = 0; rank < one.ranks; ++rank) {
    named |= rank != one.lost && text.find(rank_name(rank)) != std::string::npos;
  }
  EXPECT_TRUE(named) << text;
}

/// A fault that is shorter than the peer timeout.
struct Interruption {
  enum class Kind { stopped, unplugged } kind;
  milliseconds length;
  const char* algorithm;
};

void PrintTo(const Interruption& one, std::ostream* out) {
  const bool stopped = one.kind == Interruption::Kind::stopped;
  *out << one.algorithm << (stopped ? "_Stopped" : "_Unplugged") << one.length.count() << "ms";
}

class Interrupted : public Failure, public testing::WithParamInterface<Interruption> {
 protected:
  static constexpr int kRank = 2;

  void begin(Job& job) {
    if (GetParam().kind == Interruption::Kind::stopped) return job.rank(kRank).signal(SIGSTOP);
    ASSERT_TRUE(job.lab().link_down(kRank));
  }
  void end(Job& job) {
    if (GetParam().kind == Interruption::Kind::stopped) return job.rank(kRank).signal(SIGCONT);
    ASSERT_TRUE(job.lab().link_up(kRank));
  }
};

// The lengths leave half of the peer timeout for a busy host. The kernel handles changes of link
// state only once a second (linkwatch), so an unplugged rank stays unreachable for longer.
INSTANTIATE_TEST_SUITE_P(
    Failure, Interrupted,
    testing::Values(Interruption{Interruption::Kind::stopped, milliseconds(1500), "multicast"},
                    Interruption{Interruption::Kind::stopped, milliseconds(1500), "ring"},
                    Interruption{Interruption::Kind::unplugged, milliseconds(500), "multicast"},
                    Interruption{Interruption::Kind::unplugged, milliseconds(500), "ring"}),
    testing::PrintToStringParamName());

TEST_P(Interrupted, RankInterruptedForLessThanThePeerTimeout_continuesWithoutError) {
  device::Descriptor last_call(memfd_create("last call", MFD_CLOEXEC));
  const std::string last =
      "end=/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(last_call.get());
  auto job = Job::start(
      4, {"allgather", "100000", "1000000000", std::string("by=") + GetParam().algorithm, last});
  ASSERT_NE(job, nullptr);
  ASSERT_TRUE(within(kStart, [&] { return job->all_running(); })) << job->rank(0).text();
  begin(*job);
  std::this_thread::sleep_for(GetParam().length);
  end(*job);
  job->rank(0).signal(SIGTERM);
  std::vector<int> statuses;
  const double seconds = job->await({0, 1, 2, 3}, steady_clock::now(), statuses);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(statuses[static_cast<std::size_t>(rank)], 0) << job->rank(rank).text();
  }
  std::printf("[ figures  ] every rank had ended %.3f s after the interruption\n", seconds);
}

class NarrowPort : public Failure, public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Failure, NarrowPort, testing::Values("ud", "uc", "none"));

// A port with a small MTU delivers short datagrams and drops longer ones without an error.
TEST_P(NarrowPort, PortWithASmallMtu_makesAllRanksUseShorterDatagrams) {
  const std::string multicast = GetParam();
  const char* const algorithm = multicast == "none" ? "by=ring" : "by=multicast";
  auto job =
      Job::start(4, {"allgather", "300000", "20", algorithm}, {"TUTTI_MULTICAST=" + multicast},
                 [](Lab& lab) { return lab.set_port_mtu(2, 1000); });
  ASSERT_NE(job, nullptr);
  std::vector<int> statuses;
  job->await({0, 1, 2, 3}, steady_clock::now(), statuses);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(statuses[static_cast<std::size_t>(rank)], 0) << job->rank(rank).text();
    EXPECT_EQ(job->rank(rank).said("datagrams of 972 bytes"), rank == 0) << "one rank warns once";
  }
  EXPECT_TRUE(job->rank(0).said("rank 2 (")) << job->rank(0).text();
}

TEST_F(Failure, RankStoppedBeyondThePeerTimeout_isNamed_andReportsNoOtherRankLost) {
  auto job = Job::start(4, {"allgather", "100000", "1000000000"});
  ASSERT_NE(job, nullptr);
  ASSERT_TRUE(within(kStart, [&] { return job->all_running(); })) << job->rank(0).text();
  job->rank(1).signal(SIGSTOP);
  const auto fault = steady_clock::now();
  expect_named(*job, 1, fault);  // the survivors end while rank 1 is stopped
  job->rank(1).signal(SIGCONT);
  std::vector<int> statuses;
  job->await({1}, fault, statuses);
  const std::string text = job->rank(1).text();
  EXPECT_EQ(statuses[0], kFailed) << text;
  EXPECT_EQ(text.find("is lost"), std::string::npos) << text;
}

TEST_F(Failure, RankFrozenBetweenCallsIsNamedInTheError) {
  auto job = Job::start(4, {"allgather", "1048576", "1000000000", "stop=1:40"});
  ASSERT_NE(job, nullptr);
  ASSERT_TRUE(within(kStart, [&] { return job->rank(1).stopped(); })) << job->rank(1).text();
  expect_named(*job, 1, steady_clock::now());
}

TEST_F(Failure, RankThatComputesForSeconds_isNotReportedLost) {
  const auto begun = steady_clock::now();
  auto job = Job::start(4, {"allgather", "1048576", "30", "compute=2:20:8000"});
  ASSERT_NE(job, nullptr);
  std::vector<int> statuses;
  ASSERT_TRUE(within(kStart, [&] { return job->all_running(); })) << job->rank(0).text();
  const double seconds = job->await({0, 1, 2, 3}, begun, statuses);
  EXPECT_GT(seconds, 7.0);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(statuses[static_cast<std::size_t>(rank)], 0) << job->rank(rank).text();
  }
}

/// A folder for flight dumps, which is removed with its content.
class Records {
 public:
  Records() {
    char name[] = "/tmp/tutti-records-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Records() { std::filesystem::remove_all(path_); }

  std::vector<std::string> environment() const { return {"TUTTI_FLIGHT_RECORDER=" + path_}; }
  bool has(int rank) const { return !file(rank).empty(); }
  nlohmann::json read(int rank) const {
    return nlohmann::json::parse(std::ifstream(file(rank)), nullptr, false);
  }

 private:
  /// The path of the rank's flight-JOB-RANK.json; empty if there is none.
  std::string file(int rank) const {
    for (const auto& one : std::filesystem::directory_iterator(path_)) {
      const std::string name = one.path().filename();
      if (name.ends_with("-" + std::to_string(rank) + ".json")) return one.path();
    }
    return {};
  }

  std::string path_;
};

TEST_F(Failure, EverySurvivor_writesAFlightDump) {
  const Records records;
  auto job = Job::start(4, {"allgather", "1048576", "1000000000"}, records.environment());
  ASSERT_NE(job, nullptr);
  ASSERT_TRUE(within(kStart, [&] { return job->all_running(); })) << job->rank(0).text();
  const auto fault = steady_clock::now();
  job->rank(3).signal(SIGKILL);
  expect_named(*job, 3, fault);
  EXPECT_FALSE(records.has(3));
  for (const int survivor : {0, 1, 2}) {
    const nlohmann::json record = records.read(survivor);
    ASSERT_TRUE(record.is_object()) << survivor;
    EXPECT_EQ(record["rank"], survivor);
    EXPECT_EQ(record["size"], 4);
    EXPECT_NE(record["reason"].get<std::string>().find(rank_name(3)), std::string::npos);
    EXPECT_EQ(record["collectives"].back()["state"], "failed");
    EXPECT_EQ(record["collectives"].back()["operation"], "allgather");
    EXPECT_GT(record["counters"]["chunks_sent"], 0);
    EXPECT_GT(record["counters"]["device_multicast_datagrams_sent"], 0);
  }
}

// SIGUSR1 arrives while rank 0 waits in a collective. Rank 0 must write its flight dump and
// continue.
TEST_F(Failure, SignalToAWaitingRank_makesItWriteItsFlightDump) {
  const Records records;
  auto job =
      Job::start(3, {"allgather", "65536", "30", "compute=2:20:3000"}, records.environment());
  ASSERT_NE(job, nullptr);
  ASSERT_TRUE(within(kStart, [&] { return job->all_running(); })) << job->rank(0).text();
  ASSERT_TRUE(within(kStart, [&] { return job->rank(2).said("computes"); }));
  job->rank(0).signal(SIGUSR1);
  ASSERT_TRUE(within(kStart, [&] { return records.has(0); }));
  const nlohmann::json record = records.read(0);
  ASSERT_TRUE(record.is_object());
  EXPECT_EQ(record["reason"], "signal SIGUSR1");
  EXPECT_EQ(record["collectives"].back()["sequence"], record["counters"]["collectives_started"]);
  std::vector<int> statuses;
  job->await({0, 1, 2}, steady_clock::now(), statuses);
  EXPECT_EQ(statuses, (std::vector<int>{0, 0, 0})) << job->rank(0).text();
  EXPECT_FALSE(records.has(1));
}

}  // namespace
}  // namespace tutti::lab
