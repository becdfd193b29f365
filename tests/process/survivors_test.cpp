// If a process is killed in a collective, the status at each survivor contains the number of the
// killed rank, and the survivors continue in a new communicator. The ranks are processes of one
// host.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/bootstrap/file_bootstrap.hpp"
#include "runtime/communicator/create.hpp"
#include "tutti/communicator.hpp"

namespace tutti {
namespace {

constexpr std::uint32_t kRanks = 3;
constexpr std::uint32_t kVictim = 2;
constexpr std::size_t kBytes = 100'003;

using Bytes = std::vector<std::byte>;

Result<Communicator> join(const std::string& directory, const std::string& run, std::uint32_t rank,
                          std::uint32_t size, const std::string& device) {
  auto bootstrap = runtime::meet_in_directory(
      {.directory = directory, .run_id = run, .rank = rank_of(rank), .size = size});
  if (!bootstrap) return bootstrap.status();
  CommunicatorOptions options;
  options.device_name = device;
  return runtime::create_communicator(**bootstrap, options);
}

/// Runs an Allgather and checks its result. Returns ok, or the error.
Status allgather(Communicator& communicator) {
  const auto rank = index(communicator.rank());
  const Bytes own(kBytes, static_cast<std::byte>(rank + 1));
  Bytes all(kBytes * communicator.size());
  auto request = communicator.allgather(own, all);
  if (!request) return request.status();
  if (Status status = request->wait(); !status) return status;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != static_cast<std::byte>(i / kBytes + 1))
      return Status(Code::internal, "wrong bytes");
  }
  return {};
}

bool names_the_victim(const Status& status) {
  return status.code() == Code::peer_failed && status.ranks().size() == 1 &&
         status.ranks()[0] == rank_of(kVictim);
}

/// The whole life of one process; returns the number of the first step that went wrong, or 0.
int run_rank(const std::string& directory, std::uint32_t rank, const std::string& device) {
  auto first = join(directory, "first", rank, kRanks, device);
  if (!first) return std::fprintf(stderr, "%s\n", first.status().to_string().c_str()), 1;
  if (!allgather(*first)) return 2;
  if (rank == kVictim) ::kill(::getpid(), SIGKILL);
  const Status lost = allgather(*first);
  if (!names_the_victim(lost)) return std::fprintf(stderr, "%s\n", lost.to_string().c_str()), 3;
  if (!names_the_victim(first->status())) return 4;
  if (auto later = first->barrier(); later.ok() || !names_the_victim(later.status())) return 5;
  auto second = join(directory, "second", rank, kRanks - 1, device);
  if (!second) return std::fprintf(stderr, "%s\n", second.status().to_string().c_str()), 6;
  for (int i = 0; i < 3; ++i) {
    if (!allgather(*second)) return 7;
  }
  if (!second->finalize(std::chrono::seconds(20))) return 8;
  return names_the_victim(first->finalize(std::chrono::seconds(20))) ? 0 : 9;
}

class Survivors : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Device, Survivors, testing::Values("ip", "host"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(Survivors, RankKilledInACall_isNamedInTheStatus_andTheOthersUseANewCommunicator) {
  char directory[] = "/tmp/tutti-survivors-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  std::array<pid_t, kRanks> processes{};
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    processes[rank] = ::fork();
    ASSERT_GE(processes[rank], 0);
    if (processes[rank] == 0) ::_exit(run_rank(directory, rank, GetParam()));
  }
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(processes[rank], &status, 0), processes[rank]);
    if (rank == kVictim) {
      EXPECT_TRUE(WIFSIGNALED(status));
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << rank << " failed in step " << WEXITSTATUS(status);
    }
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tutti
