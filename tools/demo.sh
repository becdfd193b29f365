#!/bin/sh
# demo.sh [arguments of `tutti demo` ...]: builds a fresh checkout and runs the demonstration.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh
cmake --preset release > /dev/null
# The program, and the library that `cmake --install build/release` adds.
cmake --build --preset release --target tutti tutti_shared
exec build/release/apps/tutti/tutti demo "$@"
