// Runs random scenarios, one per seed, over a library with a planted bug, until a scenario fails.
// The scenarios must find the bug.
//
//   planted_NAME [MOST_SEEDS]      exit status 0: the expected invariant caught the bug
#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "sim/simulation/swarm.hpp"

/// The reason why the bug could not be planted. The symbol is defined only in that case.
extern "C" const char tutti_not_planted[] __attribute__((weak));
/// The fnmatch pattern that the message of the violated invariant must match: line "expects" of
/// BUG.txt.
extern "C" const char tutti_expected[] __attribute__((weak));
/// The first seed of the search: line "seed" of BUG.txt.
extern "C" const unsigned long long tutti_first_seed __attribute__((weak));

namespace {

constexpr std::uint64_t kMaxSeeds = 20'000;
constexpr const char* kCrash = "crash";  ///< used as the message if a seed crashes the process

/// The result of the search. It lies in shared memory, so the parent process can read it even if
/// the search crashes.
struct Finding {
  std::uint64_t seed = 0;
  bool failed = false;
  char message[600] = {};
};

void search(std::uint64_t most, Finding& finding) {
  for (std::uint64_t seed = tutti_first_seed; seed < tutti_first_seed + most; ++seed) {
    finding.seed = seed;
    const auto result = tutti::simulation::run_scenario(tutti::simulation::draw_scenario(seed));
    if (result.report.verdict.ok()) continue;
    finding.failed = true;
    std::strncpy(finding.message, result.report.verdict.to_string().c_str(),
                 sizeof finding.message - 1);
    return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* volatile why = tutti_not_planted; why != nullptr) {
    fmt::print("{}\n", why);
    return 1;
  }
  const std::uint64_t most = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : kMaxSeeds;
  void* page =
      ::mmap(nullptr, sizeof(Finding), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 2;
  Finding& finding = *new (page) Finding;
  const pid_t child = ::fork();
  if (child == 0) {
    search(most, finding);
    ::_exit(0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return 2;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    finding.failed = true;
    std::strncpy(finding.message, kCrash, sizeof finding.message - 1);
  }
  if (!finding.failed) {
    fmt::print("{} seeds from {} on did not detect the planted bug\n", most, tutti_first_seed);
    return 1;
  }
  const bool expected =
      ::fnmatch(fmt::format("*{}*", tutti_expected).c_str(), finding.message, 0) == 0;
  fmt::print("{} by seed {}: {:.500}\n", expected ? "caught" : "found", finding.seed,
             std::string_view(finding.message));
  if (expected) return 0;
  fmt::print("another invariant was expected to fail: {}\n", tutti_expected);
  return 1;
}
