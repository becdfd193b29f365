#!/bin/bash
# fuzz.sh SECONDS [NAME ...]: runs every fuzz target (or those named) for SECONDS each. Inputs that
# reach new code are kept in build/corpus/NAME and tried first the next time; an input that breaks
# something is left in build/crashes/ with the command to replay it.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! [[ "${1:-}" =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: $0 SECONDS [NAME ...]" >&2
  exit 2
fi
seconds=$1
shift

# Several may run side by side, of different targets.
mkdir -p build
(
  flock 9
  cmake --preset fuzz > /dev/null
  cmake --build --preset fuzz --target fuzzers -j "$(nproc)"
) 9> build/fuzz.lock
programs=build/fuzz/tests/fuzz
if [ $# = 0 ]; then
  for source in tests/fuzz/*_fuzz.cpp; do set -- "$@" "$(basename "$source" .cpp)"; done
fi

failed=()
mkdir -p build/crashes
for name in "$@"; do
  mkdir -p "build/corpus/$name"
  echo "==== $name: $seconds s, $(find "build/corpus/$name" -type f | wc -l) inputs known"
  if ! "$programs/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/crashes/$name-" "build/corpus/$name" 2> "build/crashes/$name.log"; then
    failed+=("$name")
    tail -30 "build/crashes/$name.log"
    echo "replay: $programs/$name FILE, with the file named above"
  fi
  grep -E 'number_of_executed_units' "build/crashes/$name.log" || true
done
if [ ${#failed[@]} != 0 ]; then
  echo "broken by some input: ${failed[*]}" >&2
  exit 1
fi
echo "every target held"
