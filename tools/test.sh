#!/bin/bash
# test.sh [--full | --quick] [-j JOBS]: installs missing packages, builds Tutti and runs its tests;
# it succeeds if all pass. Each test runs once: a failure is a failure.
#
#   (nothing)  each suite once, in the build that detects most: unit, protocol, scenario, offload
#              under AddressSanitizer with UndefinedBehaviorSanitizer, in the build of the fuzzers if
#              there is a clang; those with threads also under ThreadSanitizer; all others, and jobs
#              of more than four ranks, in the release build; each fuzzer briefly. Continuous
#              integration runs this mode.
#   --full     debug and release with every test, headers alone, every suite but lab, install and
#              structure under both sanitizers, each fuzzer briefly: hours
#   --quick    debug only
#
# Of suite process, ThreadSanitizer runs aggregator_test, host_device_processes and the tests of the
# matrix program. Only --full runs the following under ThreadSanitizer: the tests that CMake calls
# SINGLE_THREADED, the suites protocol and schedule, which have one thread, UC multicast, and
# processes that fork or exit in the middle of a job.
#
# After each preset its skipped tests are listed with what they lack. TUTTI_REQUIRE=lab,mpi,...
# turns a skip for lack of one of these into a failure; tests/requirements.py lists the names.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=usual
jobs=$(nproc)
while [ $# -gt 0 ]; do
  case "$1" in
    --full) mode=full ;;
    --quick) mode=quick ;;
    -j) jobs=$2; shift ;;
    *) echo "usage: $0 [--full | --quick] [-j JOBS]" >&2; exit 2 ;;
  esac
  shift
done

# Optional packages may be missing: the tests that use them are skipped. PyTorch is large, so it is
# installed only if TUTTI_REQUIRE names its tests.
extent=--all
if [[ ",${TUTTI_REQUIRE:-}," == *,torch,* ]]; then extent=--torch; fi
if [ "$mode" = quick ] || ! tools/setup.sh "$extent"; then tools/setup.sh; fi
python3 tests/requirements.py

launcher=()
if command -v ccache > /dev/null; then
  # Without CCACHE_DEPEND, ccache compares preprocessed text and returns a precompiled header of before
  # a change of a comment or macro. GCC then includes each changed header a second time.
  export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
  launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi

clang=$(tools/fuzz.sh --compiler 2> /dev/null || true)  # none: no fuzzers

summaries=()
failures=$(mktemp)  # the output of failed tests, repeated at the end, where a reader of a long log looks first
trap 'rm -f "$failures"' EXIT
failed=0
runs=0

# build PRESET [targets ...]: builds the targets, or everything, and notes the time.
build() {
  local preset=$1 begun=$SECONDS
  shift
  echo "==== $preset: build"
  if [ "$preset" = fuzz ]; then
    TUTTI_BUILD_JOBS=$jobs tools/fuzz.sh --build "$@"
  else
    cmake --preset "$preset" "${launcher[@]}" > /dev/null
    cmake --build --preset "$preset" -j "$jobs" ${1:+--target} "$@"
  fi
  summaries+=("$preset: built in $((SECONDS - begun)) s")
}

# run PRESET [ctest arguments ...]: runs tests and adds their results to the summary. A failure does
# not end the script, so that the summary covers every suite.
run() {
  local preset=$1 begun=$SECONDS line
  runs=$((runs + 1))
  local log=build/$preset/ctest-$runs.log skips=$PWD/build/$preset/skipped-$runs.log
  shift
  echo "==== $preset: test"
  : > "$skips"
  TUTTI_SKIP_LOG=$skips "${wrapper[@]}" ctest --preset "$preset" -j "$at_once" --no-tests=error "$@" 2>&1 |
    tee "$log" || failed=1
  summaries+=("$preset: $(grep -E 'tests passed|No tests were found' "$log" || true) \
in $((SECONDS - begun)) s")
  while read -r line; do summaries+=("$preset: $line"); done < \
    <(grep -oE 'Test +#[0-9]+: [^ ]+.*\*\*\*(Failed|Timeout|Exception|Not Run).*' "$log" | tr -s . || true)
  awk '/^ *[0-9]+\/[0-9]+ Test +#/ { shown = /\*\*\*(Failed|Timeout|Exception)/ } /^ +Start +[0-9]+:/ { shown = 0 }
    shown' "$log" | tail -n 60 >> "$failures"
  while read -r line; do summaries+=("$preset: SKIPPED $line"); done < <(sort -u "$skips")
  # No test may be skipped without a reason: CTest must not count more skips than the log has.
  if [ "$(grep -cE '\*\*\*Skipped' "$log")" -gt "$(wc -l < "$skips")" ]; then
    summaries+=("$preset: some test was skipped without a reason: see ***Skipped in $log")
    failed=1
  fi
}

wrapper=()
# Number of concurrent tests, on any machine: each test starts several ranks, which mostly wait. A
# test with the property PROCESSORS 2 counts as two.
at_once=4
if [ "$mode" != usual ]; then
  build dev
  run dev
fi
many_ranks='/P([5-9]|1[0-6])( |$)'
# AddressSanitizer runs the receive workers in every shape by UD multicast and in two by UC multicast;
# ThreadSanitizer runs two shapes.
shapes_by_uc='^uc[.](Scenario|Communicator)/Workers[.].*/W(1S2|2S2|2S4)( |$)'
shapes_of_threads='/Workers[.].*/W(1S1|2S2|2S4)( |$)'
if [ "$mode" = full ]; then
  build release
  run release
elif [ "$mode" = usual ]; then
  build release {src,sim,studies,bindings/c,apps,examples,bench}/all \
    tests/{schedule,simulator,swarm,process,python,torch,lab,structure,install}/all collectives_test endurance_test
  run release -L 'schedule|simulator|swarm|process|python|torch|lab|structure|install|c_interface|example'
  run release -L unit -R "$many_ranks"
  run release -L scenario -R '^Endurance[.]'  # the sanitizer builds make fewer calls
fi
# The sanitizers run the suites that test threads, memory and hostile bytes. The suites lab, install
# and structure would find nothing more.
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
export LSAN_OPTIONS=print_suppressions=0:suppressions=$PWD/tests/leaks_of_others.txt
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1"
# ThreadSanitizer's memory layout needs address space randomisation off.
fixed_addresses=()
if setarch -R true 2> /dev/null; then fixed_addresses=(setarch -R); fi

if [ "$mode" = full ]; then
  build headers
  build asan
  run asan -LE 'lab|install|structure'
  wrapper=("${fixed_addresses[@]}")
  build tsan all single_threaded_tests
  run tsan -LE 'lab|install|structure'
fi
if [ "$mode" = usual ]; then
  sanitized=${clang:+fuzz}
  sanitized=${sanitized:-asan}
  build "$sanitized" tests/{unit,protocol,scenario,offload}/all ${clang:+fuzzers}
  run "$sanitized" -L 'unit|protocol|scenario|offload' -E "$many_ranks|$shapes_by_uc"
  wrapper=("${fixed_addresses[@]}")
  build tsan tests/{unit,scenario,offload}/all tutti aggregated_program loop_program matrix_program
  run tsan -L 'unit|scenario|offload|process' -E \
    "^uc[.]|$many_ranks|$shapes_of_threads|^(cli|radix_sort|trace|tune)_test\$|^(life_processes|allocation_failures)\$"
fi

if [ "$mode" != quick ]; then
  echo "==== fuzz"
  if [ -z "$clang" ]; then
    summaries+=("fuzz: SKIPPED lacks fuzz: no clang with libFuzzer (tools/setup.sh --all)")
    if [[ ",${TUTTI_REQUIRE:-}," == *,fuzz,* ]]; then failed=1; fi
  elif tools/fuzz.sh 5; then
    summaries+=("fuzz: every target passed for 5 s")
  else
    summaries+=("fuzz: an input broke a target, see above")
    failed=1
  fi
fi

if [ -s "$failures" ]; then
  echo "==== output of failed tests"
  cat "$failures"
fi
echo "==== summary, after $((SECONDS / 60)) minutes"
printf '%s\n' "${summaries[@]}"
if [ "$failed" != 0 ]; then
  echo "Tutti does not pass its tests" >&2
  exit 1
fi
echo "Tutti passes its tests"
