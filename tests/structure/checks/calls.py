"""Checks for calls that a library must not make."""

import re

import cpp_text

READS_CLOCK = re.compile(r"\b(steady_clock|system_clock|high_resolution_clock|clock_gettime|"
                         r"gettimeofday|__rdtsc)\b")
CLOCKLESS = ("src/protocol/", "src/engine/", "src/wire/")

# Matches a call, but not a member of another object and not a declaration such as "void abort(".
_CALL = r"(?:^|[;{{}}()=,?!&|]|(?<!:):(?!:)|\breturn\b|\belse\b)\s*(?:\(void\)\s*)?((?:std::|::)?(?:{})\s*\()"
BANNED = [
    (re.compile(_CALL.format("exit|_exit|_Exit|quick_exit|abort|terminate"), re.M),
     "a failure is a Status, not the end of the program"),
    (re.compile(_CALL.format("rand|srand|random|srandom|drand48"), re.M),
     "randomness comes from base/random.hpp, seeded"),
    (re.compile(_CALL.format("printf|fprintf|puts|putchar|vprintf"), re.M),
     "a library prints nothing"),
    (re.compile(r"(?<![\w.])(assert\s*\()"), "input is checked with a Status, invariants by tests"),
    (re.compile(r"\b(std::(?:cout|cerr|clog))\b"), "a library prints nothing"),
    (re.compile(r"\b((?:std::this_thread::)?sleep_(?:for|until)\s*\()"),
     "nothing sleeps: wait for an event, with a deadline"),
    (re.compile(_CALL.format("sleep|usleep|nanosleep|clock_nanosleep"), re.M),
     "nothing sleeps: wait for an event, with a deadline"),
]
# Exceptions to BANNED, as (file, call, reason).
ALLOWED = [
    ("src/runtime/bootstrap/file_bootstrap.cpp", "sleep_for", "another host's file raises no event here"),
    ("src/runtime/bootstrap/store/store_client.cpp", "sleep_for", "a store that is not up yet raises no event"),
]


def check_calls(tree):
    for name, text in tree.sources("src/", "include/", "bindings/", "sim/", "studies/"):
        code = cpp_text.code_only(text)
        for pattern, reason in BANNED:
            for match in pattern.finditer(code):
                called = re.sub(r"^.*::|\s*\($", "", match.group(1))
                if any(name == file and called == what for file, what, _ in ALLOWED):
                    continue
                tree.report(name, cpp_text.line_of(code, match.start(1)), "banned call",
                            f"{called}: {reason}")


def check_clock(tree):
    for name, text in tree.sources(*CLOCKLESS):
        code = cpp_text.code_only(text)
        for match in READS_CLOCK.finditer(code):
            tree.report(name, cpp_text.line_of(code, match.start()), "clock",
                        f"{match.group()}: the time is an argument here")
