// Lets the allocations of a communicator's life fail, a different one in each life, for
// allocation_test.py.
//
//   allocation_program ip | workers | host  FIRST STEP
//
// workers: the device ip with a receive worker.
//
// A life: two ranks, threads of one process, create a communicator, call each collective and
// destroy the communicator. In each life one allocation fails: one `operator new`, in any thread,
// throws std::bad_alloc. The number of the failing allocation is FIRST in the first life and grows
// by STEP from each life to the next; the program ends when a life succeeds with fewer allocations
// than this number. Each life must end at both ranks with success or a named error, and a second
// communicator must work after the life.
//
// The program prints each fault with the stack of the allocation that led to it, and at the end the
// number of failed allocations. It exits with 0, or with 3 if there was a fault.
#include <execinfo.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "failing_allocation.hpp"
#include "tutti/communicator.hpp"

namespace {

constexpr int kFaultStatus = 3;
/// Time limit of live_without(), in seconds.
constexpr unsigned kBoundS = 60;

long g_number = 0;  ///< index, from 1, of the allocation that fails

// ---- faults -------------------------------------------------------------------------------------

/// Reports a fault and ends the process. Signal handlers may call it, because it allocates nothing.
[[noreturn]] void fault(const char* what) {
  std::array<char, 128> line;
  const int length =
      std::snprintf(line.data(), line.size(), "fault at allocation %ld: %s\n", g_number, what);
  (void)!::write(STDOUT_FILENO, line.data(), static_cast<std::size_t>(length));
  const auto stack = tutti::test::stack_of_failed_allocation();
  ::backtrace_symbols_fd(stack.data(), static_cast<int>(stack.size()), STDOUT_FILENO);
  std::array<void*, 48> here;
  (void)!::write(STDOUT_FILENO, "found here:\n", 12);
  ::backtrace_symbols_fd(here.data(), ::backtrace(here.data(), static_cast<int>(here.size())),
                         STDOUT_FILENO);
  std::_Exit(kFaultStatus);
}

[[noreturn]] void fault(const std::string& what) {
  std::puts(what.c_str());
  std::fflush(stdout);
  fault("an unexpected outcome");
}

// ---- one life -----------------------------------------------------------------------------------

constexpr std::uint32_t kRanks = 2;
constexpr std::size_t kShortBytes = 64;
constexpr std::size_t kLongBytes = 200'000;

struct Buffers {
  std::vector<std::byte> own = std::vector<std::byte>(kRanks * kLongBytes);
  std::vector<std::byte> all = std::vector<std::byte>(kRanks * kLongBytes);

  std::span<const std::byte> send(std::size_t bytes) const { return std::span(own).first(bytes); }
  std::span<std::byte> receive(std::size_t bytes) { return std::span(all).first(bytes); }
};

tutti::CommunicatorOptions options_of(const std::string& device, tutti::Nanoseconds peer_timeout,
                                      tutti::Nanoseconds create_timeout) {
  tutti::CommunicatorOptions options;
  options.device_name = device == "workers" ? "ip" : device;
  options.interface = "lo";
  options.hierarchy = "flat";
  options.receive_workers = device == "workers" ? 1 : 0;
  options.peer_timeout = peer_timeout;
  options.create_timeout = create_timeout;
  return options;
}

tutti::Status end_of(tutti::Result<tutti::Request> request) {
  if (!request) return request.status();
  return request->wait_for(std::chrono::seconds(30));
}

/// Calls each collective once and then a prepared Allgather. Blocks have `block` bytes, or
/// kShortBytes in collectives with a size for each rank.
tutti::Status call_all(tutti::Communicator& communicator, Buffers& buffers, std::size_t block) {
  constexpr std::array<std::uint64_t, kRanks> kSizes{kShortBytes, kShortBytes};
  constexpr std::array<std::uint64_t, kRanks> kOffsets{0, kShortBytes};
  const std::size_t all = kRanks * block;
  const tutti::Reduction sum{tutti::DataType::int32, tutti::ReduceOperation::sum};
  using Call = tutti::CollectiveCall;
  using tutti::Collective;
  const std::array<Call, tutti::kCollectives> calls{
      Call{.collective = Collective::barrier},
      Call{.collective = Collective::broadcast, .receive = buffers.receive(block)},
      Call{.collective = Collective::allgather,
           .send = buffers.send(block),
           .receive = buffers.receive(all)},
      Call{.collective = Collective::allgatherv,
           .send = buffers.send(kShortBytes),
           .receive = buffers.receive(kRanks * kShortBytes),
           .sizes_bytes = kSizes,
           .offsets_bytes = kOffsets},
      Call{.collective = Collective::gather,
           .send = buffers.send(block),
           .receive = communicator.rank() == tutti::Rank{0} ? buffers.receive(all)
                                                            : std::span<std::byte>()},
      Call{.collective = Collective::scatter,
           .send = buffers.send(communicator.rank() == tutti::Rank{0} ? all : 0),
           .receive = buffers.receive(block)},
      Call{.collective = Collective::alltoall,
           .send = buffers.send(all),
           .receive = buffers.receive(all)},
      Call{.collective = Collective::reduce,
           .send = buffers.send(block),
           .receive = buffers.receive(block),
           .reduction = sum},
      Call{.collective = Collective::reduce_scatter,
           .send = buffers.send(all),
           .receive = buffers.receive(block),
           .reduction = sum},
      Call{.collective = Collective::allreduce,
           .send = buffers.send(block),
           .receive = buffers.receive(block),
           .reduction = sum},
      Call{.collective = Collective::gatherv,
           .send = buffers.send(kShortBytes),
           .receive = buffers.receive(kRanks * kShortBytes),
           .sizes_bytes = kSizes,
           .offsets_bytes = kOffsets},
      Call{.collective = Collective::scatterv,
           .send = buffers.send(kRanks * kShortBytes),
           .receive = buffers.receive(kShortBytes),
           .send_sizes_bytes = kSizes,
           .send_offsets_bytes = kOffsets},
      Call{.collective = Collective::alltoallv,
           .send = buffers.send(kRanks * kShortBytes),
           .receive = buffers.receive(kRanks * kShortBytes),
           .sizes_bytes = kSizes,
           .offsets_bytes = kOffsets,
           .send_sizes_bytes = kSizes,
           .send_offsets_bytes = kOffsets},
      Call{.collective = Collective::reduce_scatterv,
           .send = buffers.send(kRanks * kShortBytes),
           .receive = buffers.receive(kShortBytes),
           .reduction = sum,
           .send_sizes_bytes = kSizes,
           .send_offsets_bytes = kOffsets}};
  for (const Call& call : calls) {
    if (tutti::Status status = end_of(communicator.start(call)); !status) return status;
  }
  auto prepared = communicator.prepare(calls[2]);
  if (!prepared) return prepared.status();
  return end_of(prepared->start());
}

tutti::Status live(const tutti::UniqueId& id, tutti::Rank rank,
                   const tutti::CommunicatorOptions& options, Buffers& buffers) {
  auto communicator = tutti::Communicator::create(id, rank, kRanks, options);
  if (!communicator) return communicator.status();
  if (tutti::Status status = call_all(*communicator, buffers, kShortBytes); !status) return status;
  if (tutti::Status status = call_all(*communicator, buffers, kLongBytes); !status) return status;
  auto duplicate = communicator->duplicate(options);
  // If an allocation fails in the original communicator after its last call, the duplicate fails,
  // too, at one rank at least, and only the status of the original contains the error.
  const auto cause_of = [&](const tutti::Status& end) {
    const tutti::Status original = communicator->status();
    return original.ok() ? end : original;
  };
  if (!duplicate) return cause_of(duplicate.status());
  if (tutti::Status last = end_of(duplicate->barrier()); !last) return cause_of(last);
  // An allocation may fail after the end of the last call. Only finalize() returns this error.
  constexpr std::chrono::seconds kCloseTime{10};
  const tutti::Status closed = duplicate->finalize(kCloseTime);
  const tutti::Status original = communicator->finalize(kCloseTime);
  return closed.ok() ? original : closed;
}

/// Creates, uses and destroys a communicator of two ranks while the `number`-th allocation fails
/// (0: none). Returns the status of each rank.
std::array<tutti::Status, kRanks> live_together(const tutti::CommunicatorOptions& options,
                                                std::array<Buffers, kRanks>& buffers, long number) {
  std::array<tutti::Status, kRanks> results;
  std::array<std::thread, kRanks> threads;
  tutti::test::fail_allocation(number);
  auto id = tutti::UniqueId::create("127.0.0.1");
  const tutti::test::ExemptFromFailure program;
  if (!id) {
    results.fill(id.status());
    tutti::test::fail_allocation(0);
    return results;
  }
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    threads[rank] = std::thread(
        [&, rank] { results[rank] = live(*id, tutti::rank_of(rank), options, buffers[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  id->discard();
  tutti::test::fail_allocation(0);
  return results;
}

/// True if both ranks succeeded, or if their errors are as required: every error has a text, none
/// is internal, and at least one names the lack of memory.
bool named(const std::array<tutti::Status, kRanks>& results) {
  const auto ok = [](const tutti::Status& one) { return one.ok(); };
  if (std::all_of(results.begin(), results.end(), ok)) return true;
  const auto internal = [](const tutti::Status& one) {
    return one.code() == tutti::Code::internal || (!one.ok() && one.message().empty());
  };
  if (std::any_of(results.begin(), results.end(), internal)) return false;
  return std::any_of(results.begin(), results.end(), [](const tutti::Status& one) {
    return one.message().find("out of memory") != std::string::npos;
  });
}

// ---- processes ----------------------------------------------------------------------------------

/// The exit status of a process that runs live_without(). kOver: all calls succeeded with fewer
/// than `number` allocations, so no allocation failed.
enum Ending : int { kSuccess, kNamedError, kOver, kFault = kFaultStatus };

/// Creates, uses and destroys a communicator while the `number`-th allocation fails, and checks
/// that another communicator works afterwards.
Ending live_without(long number, const std::string& device) {
  using namespace std::chrono_literals;
  const tutti::CommunicatorOptions impatient = options_of(device, 500ms, 1s);
  const tutti::CommunicatorOptions patient = options_of(device, 20s, 20s);
  std::array<Buffers, kRanks> buffers;
  g_number = number;
  tutti::test::forget_failed_allocation();
  ::alarm(kBoundS);
  const auto all_ok = [](const auto& of) { return of[0].ok() && of[1].ok(); };
  auto results = live_together(impatient, buffers, number);
  // On a busy machine a call may time out before the chosen allocation is reached.
  if (!tutti::test::allocation_failed() && !all_ok(results))
    results = live_together(patient, buffers, number);
  const bool failed = tutti::test::allocation_failed();
  if (failed ? !named(results) : !all_ok(results))
    fault(fmt::format("rank 0: {}\nrank 1: {}", results[0].to_string(), results[1].to_string()));
  for (const tutti::Status& one : live_together(patient, buffers, 0))
    if (!one) fault("no communicator works after the failed allocation: " + one.to_string());
  if (!failed) return kOver;
  return all_ok(results) ? kSuccess : kNamedError;
}

/// Runs live_without() in a new process, in which no object of static duration has been used yet.
/// The allocations of the first use of these objects can therefore fail, too.
int end_of_process(long number, const std::string& device) {
  const pid_t child = ::fork();
  if (child == 0) std::exit(live_without(number, device));
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return kFault;
  if (WIFEXITED(status) && WEXITSTATUS(status) < kFault) return WEXITSTATUS(status);
  fmt::print("allocation {}: its process ended with wait status {:#x}\n", number, status);
  std::fflush(stdout);
  return kFault;
}

long number_of(std::string_view text) {
  long number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || number_of(argv[2]) <= 0 || number_of(argv[3]) <= 0) {
    std::puts("usage: allocation_program DEVICE FIRST STEP");
    return 2;
  }
  // The first call of backtrace() allocates memory, so it is made before any allocation can fail.
  void* first = nullptr;
  (void)::backtrace(&first, 1);
  std::signal(SIGALRM, [](int) { fault("the communicator did not end within the time limit"); });
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT})
    std::signal(number, [](int) { fault("a crash"); });
  std::set_terminate([] { fault("std::terminate"); });
  std::array<long, kFault + 1> endings{};
  long number = number_of(argv[2]);
  for (; endings[kOver] == 0; number += number_of(argv[3]))
    ++endings[static_cast<std::size_t>(end_of_process(number, argv[1]))];
  fmt::print(
      "{} allocations failed: {} without effect, {} with a named error, {} with a fault; the last "
      "life succeeded with fewer than {}\n",
      endings[kSuccess] + endings[kNamedError] + endings[kFault], endings[kSuccess],
      endings[kNamedError], endings[kFault], number - number_of(argv[3]));
  return endings[kFault] == 0 ? 0 : kFault;
}
