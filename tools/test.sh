#!/bin/bash
# test.sh [--full | --quick] [-j JOBS]: installs what is missing, builds Tutti and runs its tests;
# success means that it passes.
#
#   (nothing)  the release build with every test; then, under the sanitizers, what parses bytes,
#              owns memory and runs threads; and each fuzzer briefly. A test that fails is tried once
#              more, since a shared machine may stop a rank for longer than its peers wait; the
#              summary names it. This is what continuous integration runs: some forty minutes on two
#              cores from nothing
#   --full     debug and release with every test, headers alone, every suite under
#              AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer, and
#              each fuzzer briefly: two hours
#   --quick    debug only
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

# What only some tests use may be missing: they are skipped then, and say so.
if [ "$mode" = quick ] || ! tools/setup.sh --all; then tools/setup.sh; fi

launcher=()
if command -v ccache > /dev/null; then
  launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi

summaries=()
failed=0

# build PRESET [targets ...]
build() {
  local preset=$1
  shift
  echo "==== $preset: build"
  cmake --preset "$preset" "${launcher[@]}" > /dev/null
  cmake --build --preset "$preset" -j "$jobs" ${1:+--target} "$@"
}

# run PRESET [ctest arguments ...]: every suite runs, also after a failure, for its summary.
run() {
  local preset=$1 log=build/$1/ctest.log
  shift
  echo "==== $preset: test"
  # Two at a time, whatever the machine: each starts several ranks, which mostly wait.
  "${wrapper[@]}" ctest --preset "$preset" -j 2 "${again[@]}" "$@" 2>&1 | tee "$log" || failed=1
  summaries+=("$preset: $(grep -E 'tests passed|No tests were found' "$log" || echo 'no summary')")
  # Each time that one did not pass, also where it did at the second try.
  while read -r line; do summaries+=("$preset: $line"); done < \
    <(grep -oE 'Test +#[0-9]+: [^ ]+.*\*\*\*(Failed|Timeout|Exception).*' "$log" | tr -s . || true)
}

wrapper=()
again=()
if [ "$mode" = usual ]; then again=(--repeat until-pass:2); fi
if [ "$mode" != usual ]; then
  build dev
  run dev
fi
if [ "$mode" != quick ]; then
  build release
  run release
fi
# Sanitizers: what runs threads, memory and hostile bytes through the library. Not the network
# lab, the installation or the structure, which the sanitizers say nothing new about.
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
export LSAN_OPTIONS=print_suppressions=0:suppressions=$PWD/tests/leaks_of_others.txt
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1"
# ThreadSanitizer's memory layout wants addresses that are not randomised.
fixed_addresses=()
if setarch -R true 2> /dev/null; then fixed_addresses=(setarch -R); fi

if [ "$mode" = full ]; then
  build headers
  build asan
  run asan -LE 'lab|install|structure'
  wrapper=("${fixed_addresses[@]}")
  build tsan
  run tsan -L 'unit|scenario|offload|c_interface'
fi
if [ "$mode" = usual ]; then
  # Many ranks on two cores take long there, and run the same code as few.
  many_ranks='/P([5-9]|1[0-6])( |$)'
  build asan tests/{unit,protocol,scenario,offload}/all
  run asan -L 'unit|protocol|scenario|offload' -E "$many_ranks"
  wrapper=("${fixed_addresses[@]}")
  build tsan tests/{unit,scenario}/all
  run tsan -L 'unit|scenario' -R 'Communicator|Progress|Worker|Endurance|HostDevice|Bootstrap|/P[234]( |$)'
fi

if [ "$mode" != quick ]; then
  echo "==== fuzz"
  if ! command -v clang++-14 > /dev/null; then
    summaries+=("fuzz: SKIPPED, clang++-14 is not installed (tools/setup.sh --all)")
  elif tools/fuzz.sh 10; then
    summaries+=("fuzz: every target held for 10 s")
  else
    summaries+=("fuzz: broken, see above")
    failed=1
  fi
fi

echo "==== summary"
printf '%s\n' "${summaries[@]}"
if [ "$failed" != 0 ]; then
  echo "Tutti does not pass its tests" >&2
  exit 1
fi
echo "Tutti passes its tests"
