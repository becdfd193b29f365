#!/bin/sh
# demo.sh [arguments of `tutti demo` ...]: builds a fresh checkout and runs the demonstration.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh
cmake --preset release > /dev/null
# The target tutti_shared is built, too, because `cmake --install build/release` needs it.
cmake --build --preset release --target tutti tutti_shared
exec build/release/apps/tutti/tutti demo "$@"
