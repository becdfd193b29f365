#!/bin/sh
# setup.sh [--all | --torch]: installs the Debian packages (Debian 12 or newer) for building and testing
# Tutti. --all adds packages for some tests only (clang for the fuzzers, the MPI launchers, numpy and
# pytest for the Python package), which are skipped without them. --torch adds those of --all and
# PyTorch, in the virtual environment build/torch, for the tests of its backend.
set -eu

# compiler and build; libraries; tools that the tests call (Python, the lab's network tools)
packages="g++ cmake ninja-build make pkg-config
  libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libssl-dev libgtest-dev libbenchmark-dev
  libpmix-dev
  python3 binutils git ethtool iproute2 nftables util-linux"
optional="clang libclang-rt-dev ccache openmpi-bin mpich python3-numpy python3-pytest"
# The version of PyTorch whose tests run.
torch_version=2.13.0
# The sources are formatted by this version. Newer Debian lacks it, and there no test checks the
# format.
where_present="clang-format-14"

case "${1:-}" in
  "") ;;
  --all) packages="$packages $optional" ;;
  --torch) packages="$packages $optional python3-venv python3-dev" ;;
  *) echo "usage: $0 [--all | --torch]" >&2; exit 2 ;;
esac

not_installed() {
  for package in "$@"; do
    state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
    [ "$state" = "ii " ] || printf ' %s' "$package"
  done
}

# The packages that the registry can install, as of the last apt-get update.
available() {
  for package in "$@"; do
    apt-cache madison "$package" 2>/dev/null | grep -q . && printf ' %s' "$package"
  done
  return 0
}

# shellcheck disable=SC2086,SC2046  # lists of words, here and below
missing=$(not_installed $packages)
missing_where_present=$(not_installed $where_present)
if [ -z "$missing" ] && [ -z "$(available $missing_where_present)" ]; then
  echo "setup: every package is installed"
elif [ -z "$missing" ] && [ "$(id -u)" != 0 ]; then
  echo "setup: every package but$missing_where_present is installed: no test checks the format"
else
  as_root=""
  if [ "$(id -u)" != 0 ]; then
    as_root=sudo
    echo "setup: using sudo, which may ask for your password"
  fi
  $as_root apt-get update -q
  missing="$missing$(available $missing_where_present)"
  echo "setup: installs$missing"
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
  echo "setup: done"
fi

environment=$(dirname "$0")/../build/torch
if [ "${1:-}" = --torch ] && ! "$environment/bin/python3" -c "import torch, numpy, expecttest" 2> /dev/null; then
  echo "setup: installs torch $torch_version"
  python3 -m venv "$environment"
  "$environment/bin/python3" -m pip install -q --disable-pip-version-check "torch==$torch_version" numpy expecttest
fi
