"""Skips Python tests that need a capability which the machine lacks, and runs tests so that skips are visible."""

import os
import sys
import unittest

# Capabilities that a test may need. tests/requirements.hpp has the same names except `fuzz`, which only tools/test.sh
# checks, and `python` and `torch`, which only tests in Python need.
CAPABILITIES = {
    "lab": "network namespaces, so that `tutti lab run` works",
    "netadmin": "traffic shaping, injected loss and persistent labs: root with CAP_NET_ADMIN, tc and nft",
    "root": "the tests run as root",
    "ipv6": "IPv6 on the loopback interface",
    "priority": "negative nice values and round-robin scheduling (CAP_SYS_NICE)",
    "nicelimit": "a limit on nice values for processes without CAP_SYS_NICE",
    "timens": "time namespaces",
    "cores": "two cores",
    "peermemory": "reading the memory of other processes of the user (process_vm_readv)",
    "mpi": "MPICH's launcher (PMI-1)",
    "pmix": "Open MPI's launcher (PMIx)",
    "fuzz": "clang with libFuzzer",
    "torch": "PyTorch 2.8 or later, for the tests of its backend",
    "python": "numpy and pytest, for the tests of the Python package",
}
NOTHING_RAN = 77  # CTest's SKIP_RETURN_CODE in cmake/TuttiTargets.cmake


def required():
    return {name for name in os.environ.get("TUTTI_REQUIRE", "").split(",") if name}


def skip_without(capability, reason):
    """Skips the calling test for lack of a capability, or fails it if TUTTI_REQUIRE lists the capability."""
    text = f"lacks {capability}: {reason}"
    if capability not in CAPABILITIES:
        raise AssertionError("unknown capability: " + text)
    if capability in required():
        raise AssertionError(text + " (TUTTI_REQUIRE)")
    raise unittest.SkipTest(text)


def main(**options):
    """Runs unittest.main, lists every skipped test, and ends with NOTHING_RAN if all tests were skipped."""
    result = unittest.main(exit=False, **options).result
    lines = [f"{test.id().removeprefix('__main__.')} {' '.join(reason.split())}" for test, reason in result.skipped]
    for line in lines:
        print("SKIPPED", line)
    unnamed = [line for line in lines if " lacks " not in line]
    for line in unnamed:
        print("a skip without a capability: call skip_without() in", line)
    if "TUTTI_SKIP_LOG" in os.environ and lines:
        with open(os.environ["TUTTI_SKIP_LOG"], "a", encoding="utf-8") as log:
            log.writelines(line + "\n" for line in lines)
    if not result.wasSuccessful() or unnamed:
        sys.exit(1)
    sys.exit(NOTHING_RAN if lines and len(lines) >= result.testsRun else 0)


if __name__ == "__main__":
    # tools/test.sh calls this before it builds, because a misspelt name would require nothing.
    unknown = required() - set(CAPABILITIES)
    if unknown:
        sys.exit(f"TUTTI_REQUIRE lists {', '.join(sorted(unknown))}: use names of {', '.join(CAPABILITIES)}")
