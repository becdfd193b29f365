#!/bin/sh
# demo.sh [arguments of `tutti demo` ...]: from a fresh checkout to a first collective.
set -eu
cd "$(dirname "$0")/.."
tools/setup.sh
cmake --preset release > /dev/null
cmake --build --preset release --target tutti
exec build/release/apps/tutti/tutti demo "$@"
