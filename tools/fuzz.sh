#!/bin/bash
# fuzz.sh SECONDS [NAME ...]: runs every fuzz target (or those named) for SECONDS each, from the
# inputs in tests/fuzz/corpus/NAME and those found before. It keeps inputs that reach new code in
# build/corpus/NAME, and an input that breaks a target in build/crashes/ with the command to replay
# it.
#
# fuzz.sh --corpus: rewrites tests/fuzz/corpus with the library's encoders.
# fuzz.sh --compiler: prints the clang in use; fails if there is none with libFuzzer.
# fuzz.sh --build TARGET ...: builds targets of preset fuzz, which may be tests.
set -euo pipefail
cd "$(dirname "$0")/.."

# Length limit of an input in bytes, above that of every message of the protocols.
max_bytes=$((1 << 20))

# clang-14 first, as in Debian 12, then any installed one, newest first.
find_clang() {
  local one
  for one in clang++-14 clang++ $(compgen -c clang++- | grep -E '^clang\+\+-[0-9]+$' | sort -t- -k2 -rnu); do
    if command -v "$one" > /dev/null &&
      echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
      "$one" -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2> /dev/null; then
      echo "$one"
      return
    fi
  done
  return 1
}

if ! compiler=$(find_clang); then
  echo "no clang with libFuzzer: install clang and its compiler-rt (tools/setup.sh --all)" >&2
  exit 1
fi
case "${1:-}" in
  --compiler) echo "$compiler"; exit 0 ;;
  --build | --corpus) ;;
  *)
    if ! [[ "${1:-}" =~ ^[1-9][0-9]*$ ]]; then
      echo "usage: $0 SECONDS [NAME ...] | --corpus | --compiler | --build TARGET ..." >&2
      exit 2
    fi
    ;;
esac

launcher=()
if command -v ccache > /dev/null; then
  launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
fi
# build TARGET ...: builds targets under a lock, because several runs of fuzz.sh may be concurrent.
build() {
  (
    flock 9
    cmake --preset fuzz -DCMAKE_C_COMPILER="${compiler/clang++/clang}" -DCMAKE_CXX_COMPILER="$compiler" \
      "${launcher[@]}" > /dev/null
    cmake --build --preset fuzz --target "$@" -j "${TUTTI_BUILD_JOBS:-$(nproc)}"
  ) 9> build/fuzz.lock
}
mkdir -p build/crashes
programs=build/fuzz/tests/fuzz
action=$1
shift
case "$action" in
  --build)
    build "$@"
    exit
    ;;
  --corpus)
    build make_corpus
    rm -rf tests/fuzz/corpus
    exec "$programs/make_corpus" tests/fuzz/corpus
    ;;
esac

seconds=$action
build fuzzers
if [ $# = 0 ]; then
  for source in tests/fuzz/*_fuzz.cpp; do set -- "$@" "$(basename "$source" .cpp)"; done
fi
# fuzz NAME: runs one target. Its output is printed after its end, because several targets run at
# the same time.
fuzz() {
  local name=$1 given=tests/fuzz/corpus/$1 log=build/crashes/$1.log known status=0
  if [ ! -d "$given" ]; then
    echo "$name has no inputs in tests/fuzz/corpus: add some to tests/fuzz/make_corpus.cpp" >&2
    return 1
  fi
  mkdir -p "build/corpus/$name"
  known=$(find "build/corpus/$name" "$given" -type f | wc -l)
  "$programs/$name" -max_total_time="$seconds" -max_len="$max_bytes" -timeout=10 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="build/crashes/$name-" \
    "build/corpus/$name" "$given" > "$log" 2>&1 || status=1
  echo "==== $name: $seconds s, $known inputs known, $(grep -E 'number_of_executed_units' "$log" || true)"
  if [ $status != 0 ]; then
    tail -30 "$log"
    echo "an input broke $name; replay: $programs/$name FILE, with the file named above" >&2
  fi
  return $status
}
export -f fuzz
export seconds max_bytes programs
if ! printf '%s\n' "$@" | xargs -P "$(nproc)" -I NAME bash -c 'fuzz NAME'; then
  echo "an input broke a target, see above" >&2
  exit 1
fi
echo "every target passed"
