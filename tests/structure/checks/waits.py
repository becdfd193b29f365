"""Checks that every wait of the library is on a list that tells what ends it.

A wait is a call in which a thread may sleep or spin until something outside it happens. Locks of mutexes are not listed,
because their holders do not wait. An entry is (file, call, times, what bounds the wait or who watches it).
"""

import re

import cpp_text

FOLDERS = ("src/", "include/", "bindings/")
# A "wait" is a task or descriptor there, which is data.
DATA = ("src/schedule/", "src/trigger/")

# A call that is neither a declaration nor the call of a member.
_FREE = r"(?:^|[;{{}}()=,?!&|<>]|\breturn\b|\belse\b)\s*(?:\(void\)\s*!?)?(?:::|device::)?({})\s*\("
CALLS = [
    re.compile(r"(?:\.|->)(wait(?:_for|_until)?|join|arrive_and_wait|try_acquire_(?:for|until))\s*\("),
    re.compile(r"std::(?:shared_)?(future)\s*<"),
    re.compile(r"std::(async|ifstream|fstream)\b"),
    re.compile(r"\b(sleep_for|sleep_until)\s*\("),
    re.compile(_FREE.format("poll") + r"\s*(?:&|\w+\.data\(\))", re.M),
    # Members of classes have these names too; a system call names the global scope or a descriptor.
    re.compile(r"(?<![\w>])::(read|readv|pread|accept|connect|recv|select|wait|open|pause)\s*\("),
    re.compile(r"(?<![\w.>:])(read|readv|pread|accept|connect|recv)\s*\(\s*\w+\.fd\(\)"),
    re.compile(_FREE.format("ppoll|epoll_wait|epoll_pwait2?|pselect|recvfrom|recvmsg|recvmmsg|accept4|getaddrinfo|"
                            "getrandom|flock|lockf|waitpid|waitid|wait4|sigwait|sigwaitinfo|sigtimedwait|sem_wait|"
                            "sem_timedwait|sem_clockwait|pthread_join|pthread_cond_wait|sched_yield|sleep|usleep|nanosleep|"
                            "clock_nanosleep|wait_events|wait_for|wait_readable"), re.M),
    re.compile(r"\b(SYS_futex|F_SETLKW|F_OFD_SETLKW)\b"),
    re.compile(r"\b(this_thread::yield|_mm_pause|__builtin_ia32_pause)\s*\("),
    re.compile(r"\b(SSL_(?:do_handshake|accept|connect|read|write|peek|shutdown)(?:_ex)?)\s*\("),
    re.compile(r"\blibrary_\.(init|finalize|commit|fence|get)\s*\("),
    re.compile(r"\b(EpollPwait2)\s+call\b"),
]

NO_WAIT = "does not wait: "
WATCHED = "the engine watches the ranks that a call waits for, and reports a silent one within 1.2 peer timeouts"

LISTED = [
    ("bindings/torch/backend_messages.cpp", "wait", 1, "the timeout of monitored_barrier"),
    ("bindings/torch/completion_pool.cpp", "wait_for", 1, "kStopSlice, within the caller's patience"),
    ("bindings/torch/completion_pool.cpp", "wait_until", 2,
     "the next deadline, kMaxWait, or the caller's patience: the exit of the process"),
    ("bindings/torch/live_groups.cpp", "join", 1, "kExitPatience: the exit of the process"),
    ("bindings/torch/operation.cpp", "wait_until", 1, "the timeout of the operation, or of Work::wait"),
    ("bindings/torch/store_exchange.cpp", "wait_until", 1, "kLongestPause; the loop ends at the caller's deadline"),
    ("bindings/torch/work.cpp", "wait", 1, "the timeout of the operation, or of Work::wait"),
    ("src/crypto/tls.cpp", "SSL_do_handshake", 1, NO_WAIT + "both ends are memory (BIO)"),
    ("src/crypto/tls.cpp", "SSL_read_ex", 1, NO_WAIT + "both ends are memory (BIO)"),
    ("src/crypto/tls.cpp", "SSL_write_ex", 1, NO_WAIT + "both ends are memory (BIO)"),
    ("src/device/host/segment.cpp", "open", 2,
     NO_WAIT + "O_PATH first; then a memory file, or a pipe with O_NONBLOCK, each of a checked type"),
    ("src/device/host/segment.cpp", "getrandom", 1, "the kernel: until its generator is seeded, once after boot"),
    ("src/device/host/segment.cpp", "read", 1, NO_WAIT + "the bell is O_NONBLOCK"),
    ("src/device/ip/datagram_batch.cpp", "recvmmsg", 1, NO_WAIT + "MSG_DONTWAIT"),
    ("src/device/ip/interface.cpp", "ifstream", 1, NO_WAIT + "a file of sysfs"),
    ("src/device/ip/link_address.cpp", "recv", 1, NO_WAIT + "MSG_DONTWAIT"),
    ("src/device/ip/multicast/multicast_queue_pair.cpp", "connect", 1, NO_WAIT + "a datagram socket"),
    ("src/device/ip/multicast/waiting_message.cpp", "recvmsg", 2, NO_WAIT + "MSG_DONTWAIT"),
    ("src/device/posix/event_wait.hpp", "EpollPwait2", 1,
     "the timeout, an argument without default: the type of the call below"),
    ("src/device/posix/event_wait.cpp", "EpollPwait2", 1,
     "the timeout, an argument without default: the callers are listed as wait_events"),
    ("src/device/posix/event_wait.cpp", "epoll_pwait", 1,
     "the timeout, an argument without default: the callers are listed as wait_events"),
    ("src/device/posix/event_wait.cpp", "wait", 1,
     "the timeout, an argument without default: the callers are listed as wait_events"),
    ("src/device/posix/private_file.cpp", "open", 2, NO_WAIT + "a new file, or O_NONBLOCK"),
    ("src/device/posix/private_file.cpp", "read", 1, NO_WAIT + "a regular file, which was checked when it was opened"),
    ("src/runtime/aggregator/aggregator_client.cpp", "join", 1,
     "create_timeout: a method that joins an aggregator's job, whose bootstrap and membership check have it"),
    ("src/runtime/aggregator/aggregator_client.cpp", "wait", 1, "kLeavePatience and the caller's deadline"),
    ("src/runtime/aggregator/aggregator_service.cpp", "wait_for", 1,
     "watched: the engine ends the job of a silent rank, and the end of the service sets the end of every job"),
    ("src/runtime/aggregator/aggregator_service.cpp", "wait", 2, "watched: see wait_for; or after set()"),
    ("src/runtime/aggregator/aggregator_service.cpp", "join", 3,
     "stopping_ and wake_ end the listener; shutdown(), the end of its job, hello_timeout or begin_timeout ends a visit"),
    ("src/runtime/aggregator/aggregator_service.cpp", "poll", 2,
     "wake_, which the destructor writes, or kPauseMs"),
    ("src/runtime/aggregator/aggregator_service.cpp", "read", 1, NO_WAIT + "an EFD_NONBLOCK event descriptor"),
    ("src/runtime/bootstrap/file_bootstrap.cpp", "sleep_for", 1, "kLongestLook; the loop ends at the caller's deadline"),
    ("src/runtime/bootstrap/launchers/pmix.cpp", "init", 1,
     "the launcher's daemon on this host: libpmix fails if the connection ends"),
    ("src/runtime/bootstrap/launchers/pmix.cpp", "finalize", 1,
     "the launcher's daemon on this host: libpmix fails if the connection ends"),
    ("src/runtime/bootstrap/launchers/pmix.cpp", "commit", 1,
     "the launcher's daemon on this host: libpmix fails if the connection ends"),
    ("src/runtime/bootstrap/launchers/pmix.cpp", "fence", 1, "PMIX_TIMEOUT"),
    ("src/runtime/bootstrap/launchers/pmix.cpp", "get", 1, "PMIX_TIMEOUT"),
    ("src/runtime/bootstrap/local_bootstrap.cpp", "wait_until", 1, "the caller's timeout"),
    ("src/runtime/bootstrap/store/socket.cpp", "getaddrinfo", 1, "the timeouts of the resolver (resolv.conf)"),
    ("src/runtime/bootstrap/store/socket.cpp", "connect", 1, NO_WAIT + "SOCK_NONBLOCK"),
    ("src/runtime/bootstrap/store/socket.cpp", "wait_for", 1, "the deadline, an argument without default"),
    ("src/runtime/bootstrap/store/socket.cpp", "poll", 1, "the deadline, an argument without default"),
    ("src/runtime/bootstrap/store/socket.cpp", "accept4", 1, NO_WAIT + "SOCK_NONBLOCK"),
    ("src/runtime/bootstrap/store/store_client.cpp", "sleep_for", 1, "kLongestPause; the loop ends at the caller's deadline"),
    ("src/runtime/bootstrap/store/store_server.cpp", "join", 1,
     "stopping_ and wake_ end the loop, which lingers for at most kLinger and kTellFailure"),
    ("src/runtime/bootstrap/store/store_server.cpp", "poll", 2,
     "kPauseMs; the next deadline of the ranks and strangers, or wake_, which stop() writes"),
    ("src/runtime/bootstrap/store/stream.cpp", "recv", 1,
     NO_WAIT + "the socket is SOCK_NONBLOCK; without bytes wait_for has the deadline"),
    ("src/runtime/bootstrap/store/stream.cpp", "wait_for", 1, "the deadline, an argument without default"),
    ("src/runtime/communicator/call_planner.cpp", "ifstream", 1, NO_WAIT + "a regular file, which is checked first"),
    ("src/runtime/communicator/closing.cpp", "poll", 1,
     "1 ms; the loop ends at the deadline, or when a watched peer is lost"),
    ("src/runtime/communicator/communicator.cpp", "wait_for", 3, "the caller's timeout; at once if the call has ended"),
    ("src/runtime/communicator/communicator.cpp", "wait", 3,
     "the caller's timeout, or the end of an aborted call; watched: " + WATCHED),
    ("src/runtime/communicator/communicator_impl.cpp", "wait", 1,
     "kRound; the loop ends at the caller's deadline, or when every call has ended: " + WATCHED),
    ("src/runtime/communicator/communicator_impl_create.cpp", "wait_readable", 1,
     "1 ms; the loop ends at the caller's timeout"),
    ("src/runtime/communicator/membership_check.cpp", "wait_readable", 1, "1 ms; the loop ends at the caller's timeout"),
    ("src/runtime/communicator/wait_set.cpp", "wait", 1, "kLongestTurn or the caller's timeout; watched: " + WATCHED),
    ("src/runtime/diagnostics/flight_dump.cpp", "sem_wait", 1,
     "no thread waits for this one, which is detached and serves SIGUSR1"),
    ("src/runtime/diagnostics/identity.cpp", "ifstream", 1, NO_WAIT + "a file of procfs"),
    ("src/runtime/progress/background_thread.cpp", "future", 1,
     "the new thread, which answers before it does anything that waits"),
    ("src/runtime/progress/background_thread.cpp", "join", 1,
     "stop_, with parked_, the engine's event and wake_event_ signalled"),
    ("src/runtime/progress/background_thread.cpp", "wait_for", 1, "kParkPollInterval"),
    ("src/runtime/progress/background_thread.cpp", "wait_events", 1, "1 s (time_left)"),
    ("src/runtime/progress/engine_ownership.hpp", "wait_for", 2,
     "kMaxWait, after which the owner is notified again, and it releases the engine after its present poll; the time of the caller"),
    ("src/runtime/progress/engine_poller.cpp", "wait_events", 2, "no time at all; 1 s (time_left)"),
    ("src/runtime/progress/event_descriptor.hpp", "read", 1, NO_WAIT + "an EFD_NONBLOCK event descriptor"),
    ("src/runtime/progress/progress.cpp", "sched_yield", 1, "one yield, without a loop, after the start of a collective"),
    ("src/runtime/progress/receive_threads.cpp", "join", 1, "stop_, with owner_event_ signalled"),
    ("src/runtime/progress/receive_threads.cpp", "wait_for", 1,
     "kSleepMax, after which the receive thread is notified again; it takes changes before each poll"),
    ("src/runtime/progress/receive_threads.cpp", "wait_events", 1, "kSleepMax"),
    ("src/runtime/progress/receive_threads.cpp", "read", 1, NO_WAIT + "an EFD_NONBLOCK event descriptor"),
    ("src/runtime/progress/yield_policy.hpp", "sched_yield", 1,
     "the spin times; the loops around it end like Request::wait: " + WATCHED),
    ("bindings/c/collectives.cpp", "wait", 1, "watched: Request::wait"),
    ("bindings/c/requests.cpp", "wait", 2, "watched: Request::wait"),
    ("bindings/c/requests.cpp", "wait_for", 1, "the caller's timeout"),
    ("bindings/c/messages.cpp", "wait", 2, "watched: Request::wait"),
]


def waits_in(code):
    """(call, offset) of each wait in the code."""
    return sorted({(match.start(1), match.group(1)) for pattern in CALLS for match in pattern.finditer(code)})


def found_in(tree):
    """{(file, call): lines} of all waits."""
    found = {}
    for name, text in tree.sources(*FOLDERS):
        if name.startswith(DATA):
            continue
        code = cpp_text.code_only(text)
        for offset, call in waits_in(code):
            found.setdefault((name, call), []).append(cpp_text.line_of(code, offset))
    return found


def check_waits(tree, listed=None):
    where = "tests/structure/checks/waits.py"
    found = found_in(tree)
    times = {(file, call): number for file, call, number, _ in (LISTED if listed is None else listed)}
    for (file, call), lines in found.items():
        known = times.get((file, call), 0)
        if len(lines) != known:
            tree.report(file, lines[0], "wait", f"{call} waits at {len(lines)} places (lines {', '.join(map(str, lines))}), and {known} "
                        f"are listed: say in {where} what ends each")
    # A tree without the file of an entry is a test of another rule.
    for file, call in sorted(set(times) - set(found)):
        if file in tree.texts or (tree.root / where).exists():
            tree.report(file, 1, "wait", f"{call} is listed in {where} but is not called: remove the entry")
