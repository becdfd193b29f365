#!/bin/sh
# setup.sh [--all]: installs the Debian 12 packages that Tutti is built and tested with. --all adds
# what only some tests use (clang for the fuzzers, the MPI launchers), which skip without it.
set -eu

# compiler and build; libraries; what the tests call (Python, the lab's network tools, clang-format)
packages="g++ cmake ninja-build make pkg-config
  libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libssl-dev libgtest-dev libbenchmark-dev
  libpmix-dev
  python3 binutils git ethtool iproute2 nftables util-linux clang-format-14"
optional="clang-14 libclang-rt-14-dev ccache openmpi-bin mpich"

case "${1:-}" in
  "") ;;
  --all) packages="$packages $optional" ;;
  *) echo "usage: $0 [--all]" >&2; exit 2 ;;
esac

missing=""
for package in $packages; do
  state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [ "$state" = "ii " ] || missing="$missing $package"
done
if [ -z "$missing" ]; then
  echo "setup: every package is installed"
  exit 0
fi

echo "setup: installs$missing"
as_root=""
if [ "$(id -u)" != 0 ]; then
  as_root=sudo
  echo "setup: by sudo, which may ask for your password"
fi
$as_root apt-get update -q
# shellcheck disable=SC2086  # a list of words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
echo "setup: done"
