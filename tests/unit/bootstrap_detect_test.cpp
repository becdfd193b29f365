// Tests which bootstrap the environment selects, and the errors for incomplete environments.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "bootstrap_ranks.hpp"
#include "descriptor_limit.hpp"
#include "runtime/bootstrap/detect.hpp"
#include "runtime/bootstrap/env_bootstrap.hpp"
#include "runtime/bootstrap/launchers/pmi.hpp"
#include "runtime/bootstrap/launchers/slurm.hpp"
#include "runtime/bootstrap/store/stream.hpp"
#include "runtime/bootstrap/text.hpp"

namespace tutti::runtime::test {
namespace {

Made detected(const Variables& variables) { return detect(kShort, environment_of(variables)); }

std::string winner(const Variables& variables) {
  const auto made = detected(variables);
  return made.ok() ? (*made)->description() : made.status().to_string();
}

/// The error message for an environment that must be refused.
std::string refusal(const Variables& variables) {
  const auto made = detected(variables);
  if (made.ok()) return "accepted: " + (*made)->description();
  EXPECT_EQ(made.status().code(), Code::invalid_argument) << made.status().to_string();
  return made.status().message();
}

bool names(const std::string& message, std::initializer_list<const char*> words) {
  return std::all_of(words.begin(), words.end(),
                     [&](const char* word) { return message.find(word) != std::string::npos; });
}

TEST(BootstrapDetect, ProcessWithoutALauncher_isAJobOfOneRank) {
  const auto made = detected({{"HOME", "/"}});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ((*made)->size(), 1u);
  EXPECT_EQ((*made)->description(), "single process (no launcher found)");
  EXPECT_EQ((*made)->allgather(bytes_of("x"), kShort)->at(0), bytes_of("x"));
}

TEST(BootstrapDetect, VariablesOfSeveralLaunchers_selectTheLauncherThatIsFirstInAFixedOrder) {
  const Variables env = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  const Variables slurm = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "0"}};
  const auto with = [](Variables a, const Variables& b) {
    a.insert(b.begin(), b.end());
    return a;
  };
  EXPECT_TRUE(winner(slurm).starts_with("slurm://"));
  EXPECT_TRUE(winner(with(open_mpi, slurm)).starts_with("OMPI_COMM_WORLD_RANK"));
  EXPECT_TRUE(winner(with(env, with(open_mpi, slurm))).starts_with("env://"));
  EXPECT_TRUE(
      winner(with({{"TUTTI_BOOTSTRAP", "single://"}}, with(env, slurm))).starts_with("single://"));
  EXPECT_TRUE(
      winner(with({{"TUTTI_BOOTSTRAP", "slurm://"}}, with(env, slurm))).starts_with("slurm://"));
}

TEST(BootstrapDetect, SlurmBatchScript_outsideAStep_runsAsASingleProcess) {
  EXPECT_EQ(winner({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}, {"SLURM_JOB_ID", "7"}}),
            "single process (no launcher found)");
}

TEST(BootstrapDetect, IncompleteEnvironmentsAreRefused) {
  EXPECT_TRUE(names(refusal({{"RANK", "0"}}), {"RANK is set", "WORLD_SIZE is not"}));
  EXPECT_TRUE(names(refusal({{"WORLD_SIZE", "2"}}), {"WORLD_SIZE is set", "RANK is not"}));
  EXPECT_TRUE(names(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), {"MASTER_ADDR is not set"}));
  EXPECT_TRUE(names(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}}),
                    {"MASTER_PORT", "TUTTI_MASTER_PORT"}));
  EXPECT_TRUE(names(refusal({{"PMIX_RANK", "0"}}), {"PMIX_RANK is set", "PMIX_NAMESPACE is not"}));
  EXPECT_TRUE(names(refusal({{"PMIX_NAMESPACE", "j"}}), {"PMIX_RANK is not"}));
  EXPECT_TRUE(names(refusal({{"PMI_RANK", "0"}}), {"PMI_RANK is set", "PMI_SIZE is not"}));
  EXPECT_TRUE(names(refusal({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), {"PMI_FD is not"}));
  EXPECT_TRUE(names(refusal({{"PMI_FD", "7"}}), {"PMI_RANK", "PMI_SIZE"}));
  EXPECT_TRUE(names(refusal({{"OMPI_COMM_WORLD_RANK", "0"}}), {"OMPI_COMM_WORLD_SIZE is not"}));
  EXPECT_TRUE(names(refusal({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
                    {"PMIx cannot be used", "MASTER_ADDR is not set"}));
  EXPECT_TRUE(names(refusal({{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}}),
                    {"SLURM_PROCID is set", "SLURM_NTASKS is not"}));
  EXPECT_TRUE(names(refusal({{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}}),
                    {"SLURM_STEP_NODELIST", "set MASTER_ADDR"}));
  EXPECT_TRUE(names(refusal({{"SLURM_PROCID", "0"},
                             {"SLURM_STEP_ID", "0"},
                             {"SLURM_NTASKS", "2"},
                             {"MASTER_ADDR", "h"},
                             {"MASTER_PORT", "0"}}),
                    {"MASTER_PORT is 0", "1 to 65535"}));
}

TEST(BootstrapDetect, InvalidEnvironmentVariables_areRefused) {
  EXPECT_TRUE(names(refusal({{"RANK", "two"}, {"WORLD_SIZE", "2"}}), {"RANK='two'"}));
  EXPECT_TRUE(names(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), {"RANK=2", "WORLD_SIZE=2"}));
  EXPECT_TRUE(names(refusal({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), {"WORLD_SIZE=0"}));
  const Variables env = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}};
  Variables bad_port = env;
  bad_port["MASTER_PORT"] = "65536";
  EXPECT_TRUE(names(refusal(bad_port), {"MASTER_PORT='65536'"}));
  bad_port["MASTER_PORT"] = "0";
  EXPECT_TRUE(names(refusal(bad_port), {"MASTER_PORT=0"}));
  EXPECT_TRUE(names(refusal({{"TUTTI_BOOTSTRAP_TIMEOUT_S", "soon"}}),
                    {"TUTTI_BOOTSTRAP_TIMEOUT_S='soon'"}));
}

TEST(BootstrapDetect, UnknownBootstrapNames_areRefused) {
  for (const char* request : {"mpi://", "env", "file", "env://x", "://", "tcp//h:1"}) {
    EXPECT_TRUE(names(refusal({{"TUTTI_BOOTSTRAP", request}}), {request, "is unknown"}));
  }
  const Variables place = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  for (const char* address : {"", "host", "host:", "host:0", "host:65536", ":1", "::1:5"}) {
    Variables variables = place;
    variables["TUTTI_BOOTSTRAP"] = std::string("tcp://") + address;
    EXPECT_TRUE(names(refusal(variables), {"is not an address"})) << address;
  }
  EXPECT_TRUE(names(refusal({{"TUTTI_BOOTSTRAP", "tcp://127.0.0.1:5"}}), {"set RANK"}));
  EXPECT_TRUE(names(refusal({{"TUTTI_BOOTSTRAP", "pmix://"}}), {"PMIX_RANK"}));
  EXPECT_TRUE(names(refusal({{"TUTTI_BOOTSTRAP", "slurm://"}}), {"SLURM_PROCID"}));
  Variables nameless = place;
  nameless["TUTTI_BOOTSTRAP"] = "file:///tmp";
  EXPECT_TRUE(names(refusal(nameless), {"TUTTI_RUN_ID"}));
}

TEST(BootstrapDetect, TimeoutIsReadFromTheEnvironment) {
  const auto made = detect(kLong, environment_of({{"RANK", "1"},
                                                  {"WORLD_SIZE", "2"},
                                                  {"MASTER_ADDR", "127.0.0.1"},
                                                  {"MASTER_PORT", std::to_string(free_port())},
                                                  {"TUTTI_BOOTSTRAP_TIMEOUT_S", "1"}}));
  EXPECT_EQ(made.status().code(), Code::timeout);
  EXPECT_TRUE(names(made.status().message(), {"within 1 s"}));
}

TEST(BootstrapDetect, RanksConnectAtARequestedAddress) {
  const std::string address = "tcp://127.0.0.1:" + std::to_string(free_port());
  EXPECT_EQ(no_problems(3), exchange_problems(3, [&](std::uint32_t rank) {
              return detect(kLong, environment_of({{"TUTTI_BOOTSTRAP", address},
                                                   {"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                                                   {"OMPI_COMM_WORLD_SIZE", "3"}}));
            }));
}

TEST(BootstrapDetect, JobKey_fromAnOptionOrAVariable_makesTheStoreUseTls) {
  const auto store_variables = [](std::uint32_t rank, const std::string& port) {
    return Variables{{"RANK", std::to_string(rank)},
                     {"WORLD_SIZE", "2"},
                     {"MASTER_ADDR", "127.0.0.1"},
                     {"MASTER_PORT", port}};
  };
  JobKey option;
  option.bytes.fill(std::byte{0xaa});
  const std::string same_digits(64, 'a');
  const std::string port = std::to_string(free_port());
  EXPECT_EQ(no_problems(2), exchange_problems(2, [&](std::uint32_t rank) {
              Variables variables = store_variables(rank, port);
              if (rank == 1) variables["TUTTI_JOB_KEY"] = same_digits;
              return detect(kLong, environment_of(variables),
                            rank == 0 ? std::optional(option) : std::nullopt);
            }));
  // Rank 1 has no job key, so the store of rank 0 must refuse it. This proves that the store uses
  // TLS.
  const std::string other_port = std::to_string(free_port());
  const auto messages = on_ranks(2, [&](std::uint32_t rank) {
    Variables variables = store_variables(rank, other_port);
    if (rank == 0) variables["TUTTI_JOB_KEY"] = same_digits;
    return detect(kPatience, environment_of(variables)).status().message();
  });
  EXPECT_TRUE(names(messages[0], {"rank 1 did not join"})) << messages[0];
  EXPECT_TRUE(names(messages[1], {"rank 0 has a job key but this rank has none"})) << messages[1];
}

TEST(BootstrapDetect, Ranks_exchangeContributionsInARequestedDirectory) {
  const std::string directory = "/tmp/tutti-detect-" + random_hex(8).value();
  EXPECT_EQ(no_problems(3), exchange_problems(3, [&](std::uint32_t rank) {
              return detect(kLong, environment_of({{"TUTTI_BOOTSTRAP", "file://" + directory},
                                                   {"TUTTI_RUN_ID", "r"},
                                                   {"RANK", std::to_string(rank)},
                                                   {"WORLD_SIZE", "3"}}));
            }));
  EXPECT_EQ(rmdir(directory.c_str()), 0) << "the exchange must leave no files";
}

TEST(BootstrapDetect, JobsWithDifferentRunIdsDoNotMix) {
  const std::string port = std::to_string(free_port());
  const auto messages = on_ranks(2, [&](std::uint32_t rank) {
    return detect(kPatience, environment_of({{"RANK", std::to_string(rank)},
                                             {"WORLD_SIZE", "2"},
                                             {"MASTER_ADDR", "127.0.0.1"},
                                             {"MASTER_PORT", port},
                                             {"TUTTI_RUN_ID", std::to_string(rank)}}))
        .status()
        .message();
  });
  EXPECT_TRUE(names(messages[0], {"rank 1 did not join"})) << messages[0];
  EXPECT_TRUE(names(messages[1], {"another job", "TUTTI_RUN_ID"})) << messages[1];
}

TEST(BootstrapEnv, TorchAgentOnTheMasterPort_makesTheStoreUseTheNextPort) {
  Variables torch = {
      {"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  EXPECT_EQ(read_master(environment_of(torch))->port, 29501);
  torch["TUTTI_MASTER_PORT"] = "777";
  EXPECT_EQ(read_master(environment_of(torch))->port, 777);
  EXPECT_EQ(read_master(environment_of({{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}}))->port, 5);
}

TEST(BootstrapEnv, RunName_dependsOnTheRunIdAndTheRestartCount) {
  EXPECT_EQ(run_identity(environment_of({})), "");
  EXPECT_EQ(run_identity(environment_of({{"TORCHELASTIC_RUN_ID", "j"}})), "j.0");
  EXPECT_EQ(run_identity(environment_of(
                {{"TORCHELASTIC_RUN_ID", "j"}, {"TORCHELASTIC_RESTART_COUNT", "2"}})),
            "j.2");
}

TEST(BootstrapSocket, AddressesAreParsedAndPrinted) {
  for (const char* text : {"host:1", "10.0.0.1:65535", "[::1]:29500", "[fe80::1%eth0]:7"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_TRUE(endpoint.ok()) << text;
    EXPECT_EQ(to_string(*endpoint), text);
  }
}

TEST(BootstrapSocket, Listener_withoutFreeFileDescriptors_pauses_andLaterAccepts) {
  auto socket = listen_on({"127.0.0.1", 0});
  ASSERT_TRUE(socket.ok());
  const auto port = bound_port(*socket);
  ASSERT_TRUE(port.ok());
  Listener listener(std::move(*socket));
  const auto peer = connect_once({"127.0.0.1", *port}, deadline_after(std::chrono::seconds(60)));
  ASSERT_TRUE(peer.ok());
  const Deadline at = SteadyClock::now();
  {
    const tutti::test::DescriptorLimit none(0);
    EXPECT_FALSE(listener.accept().open());
  }
  EXPECT_EQ(listener.poll_fd(at), -1) << "polling a listener that cannot accept would spin";
  const Deadline end = listener.pause_end(at);
  ASSERT_LT(end, Deadline::max());
  EXPECT_GE(listener.poll_fd(end), 0);
  EXPECT_EQ(listener.pause_end(end), Deadline::max());
  EXPECT_TRUE(listener.accept().open());
}

TEST(BootstrapSlurm, FirstHostOfANodeList_isFound_andMalformedListsAreRefused) {
  const auto first = [](const char* list) { return first_slurm_host(list).value(); };
  EXPECT_EQ(first("node1"), "node1");
  EXPECT_EQ(first("node1,node2"), "node1");
  EXPECT_EQ(first("node[07-12,20],gpu3"), "node07");
  EXPECT_EQ(first("node[5]"), "node5");
  EXPECT_EQ(first("rack[1-2]node[3-4]-ib,x"), "rack1node3-ib");
  for (const char* list : {"", ",a", "node[", "node[]", "node[,1]"}) {
    EXPECT_FALSE(first_slurm_host(list).ok()) << list;
  }
}

TEST(BootstrapSlurm, RanksOfASlurmStep_exchangeContributions) {
  // A job number that no other job on this machine uses at this moment.
  const std::string job = std::to_string(free_port());
  EXPECT_EQ(no_problems(3), exchange_problems(3, [&](std::uint32_t rank) {
              return detect(kLong, environment_of({{"SLURM_PROCID", std::to_string(rank)},
                                                   {"SLURM_NTASKS", "3"},
                                                   {"SLURM_STEP_ID", "0"},
                                                   {"SLURM_JOB_ID", job},
                                                   {"SLURM_STEP_NODELIST", "localhost"}}));
            }));
}

/// A PMI-1 launcher for the ranks of one test, which serves each rank in a thread of its own.
class Launcher {
 public:
  explicit Launcher(std::uint32_t size) : barrier_(make_barrier(size)) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) continue;
      ranks_.push_back(Socket(ends[0]));
      threads_.emplace_back([this, fd = ends[1]] { serve(Socket(fd)); });
    }
  }
  ~Launcher() {
    {
      const std::lock_guard lock(barrier_->mutex);
      barrier_->missing = 0;
      barrier_->changed.notify_all();
    }
    for (const Socket& rank : ranks_) shutdown(rank.fd(), SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
  }

  Variables variables(std::uint32_t rank) const {
    return {{"PMI_FD", std::to_string(ranks_[rank].fd())},
            {"PMI_RANK", std::to_string(rank)},
            {"PMI_SIZE", std::to_string(ranks_.size())},
            {"TUTTI_BOOTSTRAP_HOST", "127.0.0.1"}};
  }
  std::size_t finished() const {
    const std::lock_guard lock(barrier_->mutex);
    return finished_;
  }

 private:
  struct Barrier {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint32_t missing = 0;
  };
  static std::unique_ptr<Barrier> make_barrier(std::uint32_t size) {
    auto barrier = std::make_unique<Barrier>();
    barrier->missing = size;
    return barrier;
  }

  void serve(Socket socket) {
    std::string input;
    char bytes[512];
    ssize_t got = 0;
    while ((got = read(socket.fd(), bytes, sizeof bytes)) > 0) {
      input.append(bytes, static_cast<std::size_t>(got));
      for (std::size_t end = input.find('\n'); end != input.npos; end = input.find('\n')) {
        const std::string reply = answer(*parse_pmi_line(input.substr(0, end))) + "\n";
        input.erase(0, end + 1);
        if (write(socket.fd(), reply.data(), reply.size()) < 0) return;
      }
    }
  }

  std::string answer(const PmiClient::Words& words) {
    const std::string& command = words.at("cmd");
    if (command == "init") return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    if (command == "get_maxes") return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=512";
    if (command == "get_my_kvsname") return "cmd=my_kvsname kvsname=kvs_1_0";
    std::unique_lock lock(barrier_->mutex);
    if (command == "put") {
      values_[words.at("key")] = words.at("value");
      return "cmd=put_result rc=0 msg=success";
    }
    if (command == "get")
      return "cmd=get_result rc=0 msg=success value=" + values_[words.at("key")];
    if (command == "finalize") {
      ++finished_;
      return "cmd=finalize_ack";
    }
    if (barrier_->missing > 0 && --barrier_->missing == 0) barrier_->changed.notify_all();
    barrier_->changed.wait(lock, [&] { return barrier_->missing == 0; });
    return "cmd=barrier_out";
  }

  std::unique_ptr<Barrier> barrier_;
  std::map<std::string, std::string> values_;
  std::size_t finished_ = 0;
  std::vector<Socket> ranks_;
  std::vector<std::thread> threads_;
};

TEST(BootstrapPmi, RanksExchangeThroughTheLauncher) {
  Launcher launcher(4);
  EXPECT_EQ(no_problems(4), exchange_problems(4, [&](std::uint32_t rank) {
              return detect(kLong, environment_of(launcher.variables(rank)));
            }));
  EXPECT_EQ(launcher.finished(), 4u);
}

TEST(BootstrapPmi, SilentOrFailingLauncher_isReportedAsAnError) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Socket ours(ends[0]);
  Stream theirs{Socket(ends[1])};
  const Variables variables = {
      {"PMI_FD", std::to_string(ours.fd())}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  auto made = detected(variables);  // environment of a launcher that never answers
  EXPECT_EQ(made.status().code(), Code::timeout);
  EXPECT_TRUE(names(made.status().message(), {"rank 1", "at least one of the 2 ranks"}));

  ASSERT_EQ(write(theirs.socket().fd(), "cmd=response_to_init rc=-1\n", 27), 27);
  made = detected(variables);
  EXPECT_TRUE(names(made.status().message(), {"rc=-1", "cmd=init"})) << made.status().message();

  // The line is longer than permitted, but fits into the buffer of the socket.
  const Bytes endless(20'000, std::byte{'x'});
  ASSERT_TRUE(theirs.send_all(endless, deadline_after(kLong)).ok());
  made = detected(variables);
  EXPECT_TRUE(names(made.status().message(), {"longer than 16384 bytes"}))
      << made.status().message();

  shutdown(theirs.socket().fd(), SHUT_RDWR);
  for (int attempt = 0; attempt < 3; ++attempt) made = detected(variables);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().code(), Code::timeout) << made.status().to_string();
}

TEST(BootstrapPmi, ClosedFileDescriptorOrMalformedLine_isRefused) {
  EXPECT_TRUE(
      names(detected({{"PMI_FD", "999"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}).status().message(),
            {"PMI_FD=999 is not open"}));
  EXPECT_FALSE(parse_pmi_line("").ok());
  EXPECT_FALSE(parse_pmi_line("rc=0 x y").ok());
  EXPECT_EQ(parse_pmi_line("cmd=a  msg=no such key value==")->at("value"), "=");
}

}  // namespace
}  // namespace tutti::runtime::test
