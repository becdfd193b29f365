// A rank whose process forks or exits in the middle of a job, for life_test.py.
//
//   life_program exit | return | callback  static | heap
//   life_program fork  exit | _exit | communicate
//
// fork: rank 1 forks while a collective is under way. The child uses and destroys its copies of
// the handles and ends by exit() or _exit(). A filter kills the child on any system call that could
// reach the parent. With `communicate` there is no filter, and the child also runs a communicator
// of its own. exit, return, callback: rank 1 ends by exit(), by return from main, or by exit() in a
// completion callback, while the other ranks continue to call. static: the communicator has static
// duration. heap: the communicator is never destroyed.
//
// With fork, each rank prints "complete" at the end; otherwise, each rank prints "running" before
// rank 1 ends. After an error or a wrong result, a rank prints the reason and exits with 3.
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sanitized.hpp"
#include "tutti/communicator.hpp"

namespace {

using Bytes = std::vector<std::byte>;

constexpr int kFailed = 3;
constexpr std::size_t kBlockBytes = 300'000;
constexpr int kCalls = 10;
constexpr tutti::Rank kActor{1};

std::optional<tutti::Communicator> g_static;
tutti::Communicator* g_heap = nullptr;  ///< never destroyed, but reachable for leak checkers

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

[[noreturn]] void give_up(const std::string& why) {
  say(why);
  std::_Exit(kFailed);
}

void expect(bool holds, const std::string& what) {
  if (!holds) give_up("wrong: " + what);
}

void expect_ok(const tutti::Status& status) {
  if (!status) give_up("failed: " + status.to_string());
}

struct Gather {
  Bytes own;
  Bytes all;

  tutti::Result<tutti::Request> start(tutti::Communicator& communicator, int call) {
    own.assign(kBlockBytes, value(index(communicator.rank()), call));
    all.resize(kBlockBytes * communicator.size());
    return communicator.allgather(own, all);
  }
  bool right(std::uint32_t ranks, int call) const {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const auto* block = all.data() + rank * kBlockBytes;
      if (!std::all_of(block, block + kBlockBytes,
                       [&](std::byte one) { return one == value(rank, call); }))
        return false;
    }
    return true;
  }
  static std::byte value(std::uint32_t rank, int call) {
    return static_cast<std::byte>(rank * 31 + static_cast<std::uint32_t>(call) * 7 + 1);
  }
};

void gather(tutti::Communicator& communicator, int call) {
  Gather one;
  auto request = one.start(communicator, call);
  expect_ok(request.status());
  expect_ok(request->wait());
  expect(one.right(communicator.size(), call), "data");
}

// ---- fork ---------------------------------------------------------------------------------------

/// Installs a filter by which the kernel kills this process on any system call that could affect
/// the parent, such as one on a shared socket, epoll instance, timer or event. Builds with a
/// sanitizer have no filter, because the sanitizer makes these calls itself.
void confine() {
  if (tutti::test::kSanitized) return;
#if defined(__x86_64__)
  constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#else
  constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif
  const long banned[] = {SYS_sendto,       SYS_sendmsg,         SYS_sendmmsg,   SYS_recvfrom,
                         SYS_recvmsg,      SYS_recvmmsg,        SYS_epoll_ctl,  SYS_epoll_pwait,
                         SYS_epoll_pwait2, SYS_timerfd_settime, SYS_setsockopt, SYS_shutdown,
                         SYS_connect,      SYS_socket,          SYS_close,      SYS_read,
                         SYS_ppoll,        SYS_clone,           SYS_clone3,     SYS_kill,
                         SYS_tgkill,       SYS_ftruncate};
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long number : banned) {
    program.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  }
  // The process may write only to standard output and standard error, because other descriptors may
  // be eventfds.
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 3));
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)));
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, STDERR_FILENO, 0, 1));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog all{static_cast<unsigned short>(program.size()), program.data()};
  expect(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
  expect(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0, "seccomp");
}

void expect_refused(const tutti::Status& status) {
  expect(status.code() == tutti::Code::invalid_argument, status.to_string());
  const std::string owner = "belongs to process " + std::to_string(::getppid());
  expect(status.message().find(owner) != std::string::npos, status.to_string());
}

/// The handles of the parent at the time of the fork.
struct Handles {
  std::unique_ptr<tutti::Communicator> communicator;
  std::optional<tutti::Request> request;
  std::optional<tutti::Prepared> prepared;
  tutti::UniqueId id;  ///< created by the parent; no rank has used it yet
};

void use_in_child(Handles& handles) {
  tutti::Communicator& communicator = *handles.communicator;
  Gather unused;
  expect_refused(unused.start(communicator, 0).status());
  expect_refused(communicator.barrier().status());
  expect_refused(communicator.duplicate().status());
  expect_refused(communicator.prepare({.collective = tutti::Collective::barrier}).status());
  expect_refused(communicator.algorithm_of({.collective = tutti::Collective::barrier}).status());
  expect_refused(communicator.on_completion(*handles.request, [](const tutti::Status&) {}));
  expect_refused(handles.prepared->start().status());
  expect(handles.request->test(), "test() in a child must be true, so that no loop waits");
  expect_refused(handles.request->wait());
  expect_refused(handles.request->wait_for(tutti::Nanoseconds(1)));
  (void)handles.request->progress();
  communicator.abort("a child of fork() cannot abort");
  expect(communicator.counters().empty() && communicator.flight_record().empty(), "counters");
  expect(communicator.describe().empty() && communicator.link_bytes_per_second() == 0, "describe");
  expect(communicator.rank() == kActor && communicator.size() > 1, "rank");
  const auto joined = tutti::Communicator::create(handles.id, tutti::Rank{0}, 1);
  expect(joined.status().code() == tutti::Code::invalid_argument,
         "the child joined with its parent's id");
  handles.prepared.reset();
  handles.request.reset();
  handles.communicator.reset();
}

/// Creates communicators whose only rank is this process, and runs an Allgather on each.
void communicate_in_child() {
  const auto alone = [](std::span<const std::byte> mine, std::span<std::byte> all,
                        tutti::Nanoseconds) -> tutti::Status {
    std::copy(mine.begin(), mine.end(), all.begin());
    return {};
  };
  auto own = tutti::Communicator::create(alone, tutti::Rank{0}, 1);
  expect_ok(own.status());
  gather(*own, 0);
  auto id = tutti::UniqueId::create("127.0.0.1");
  expect_ok(id.status());
  auto joined = tutti::Communicator::create(*id, tutti::Rank{0}, 1);
  expect_ok(joined.status());
  gather(*joined, 1);
}

void fork_and_go_on(Handles& handles, std::string_view end) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  expect(child >= 0, "fork");
  if (child == 0) {
    if (end != "communicate") confine();
    use_in_child(handles);
    if (end == "communicate") communicate_in_child();
    if (end == "_exit") ::_exit(0);
    std::exit(0);
  }
  int status = 0;
  expect(::waitpid(child, &status, 0) == child, "waitpid");
  expect(status == 0, fmt::format("the child ended with wait status {:#x}", status));
}

int run_fork(tutti::Communicator created, std::string_view end) {
  Handles handles;
  handles.communicator = std::make_unique<tutti::Communicator>(std::move(created));
  tutti::Communicator& communicator = *handles.communicator;
  const std::uint32_t ranks = communicator.size();
  for (int call = 0; call < kCalls; ++call) gather(communicator, call);
  Bytes word(8);
  Bytes words(8 * ranks);
  auto prepared = communicator.prepare(
      {.collective = tutti::Collective::allgather, .send = word, .receive = words});
  expect_ok(prepared.status());
  handles.prepared.emplace(std::move(*prepared));
  // The other ranks wait in this collective while rank 1 forks.
  Gather pending;
  auto request = pending.start(communicator, kCalls);
  expect_ok(request.status());
  handles.request.emplace(std::move(*request));
  if (communicator.rank() == kActor) {
    auto id = tutti::UniqueId::create("127.0.0.1");
    expect_ok(id.status());
    handles.id = *id;
    fork_and_go_on(handles, end);
    id->discard();
  }
  expect_ok(handles.request->wait());
  expect(pending.right(ranks, kCalls), "data of the call in which rank 1 forked");
  auto started = handles.prepared->start();
  expect_ok(started.status());
  expect_ok(started->wait());
  for (int call = 0; call < kCalls; ++call) gather(communicator, call);
  say("complete");
  return 0;
}

// ---- exit ---------------------------------------------------------------------------------------

int run_exit(tutti::Communicator created, std::string_view way, bool is_static) {
  tutti::Communicator* communicator = nullptr;
  if (is_static) {
    communicator = &g_static.emplace(std::move(created));
  } else {
    communicator = g_heap = new tutti::Communicator(std::move(created));
  }
  for (int call = 0; call < kCalls; ++call) gather(*communicator, call);
  say("running");
  if (communicator->rank() == kActor) {
    // Rank 1 ends while a collective is under way. The buffers are static because the collective
    // uses them until the process has ended.
    static Gather* const pending = new Gather();
    auto request = pending->start(*communicator, kCalls);
    expect_ok(request.status());
    if (way == "callback") {
      expect_ok(communicator->on_completion(*request, [](const tutti::Status&) { std::exit(0); }));
      expect_ok(request->wait());
      give_up("exit() in a callback did not end the process");
    }
    if (way == "exit") std::exit(0);
    return 0;
  }
  for (int call = kCalls;; ++call) gather(*communicator, call);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) give_up("usage: life_program fork|exit|return|callback END");
  const std::string_view mode = argv[1];
  const std::string_view end = argv[2];
  auto communicator = tutti::Communicator::create();
  expect_ok(communicator.status());
  if (mode == "fork") return run_fork(std::move(*communicator), end);
  return run_exit(std::move(*communicator), mode, end == "static");
}
