#!/bin/sh
# check_install.sh BUILD WORK installs the build folder BUILD under WORK and uses the installation as outside programs
# do.
set -eu
build=$1
work=$2
here=$(cd "$(dirname "$0")" && pwd)

rm -rf "$work"
mkdir -p "$work"
prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" > "$work/install.log"

echo "== licence and documentation"
for file in LICENSE README.md docs/operating.md; do
  [ -s "$prefix/share/doc/tutti/$file" ] || { echo "$file is not installed" >&2; exit 1; }
done

echo "== find_package"
cmake -S "$here/outside" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" > "$work/configure.log"
cmake --build "$work/cmake"
"$work/cmake/two_ranks"
"$work/cmake/one_rank"
"$work/cmake/four_ranks"

echo "== pkg-config, at another place than where it was installed"
mv "$prefix" "$work/moved"
library=$(dirname "$(find "$work/moved" -name libtutti.so)")
cp -r "$here/outside" "$work/make"
PKG_CONFIG_PATH=$library/pkgconfig make -C "$work/make"
LD_LIBRARY_PATH=$library "$work/make/two_ranks"
LD_LIBRARY_PATH=$library "$work/make/one_rank"
LD_LIBRARY_PATH=$library "$work/make/four_ranks_c"
LD_LIBRARY_PATH=$library "$work/make/four_ranks"

echo "== the samples of README, alone"
for language in c cpp; do
  sed -n "/<!-- sample: $language -->/,/^\`\`\`\$/p" "$here/../../README.md" | sed '1,2d;$d' > "$work/sample.$language"
done
flags="-Wall -Wextra -Werror -I$work/moved/include -L$library -ltutti"
# shellcheck disable=SC2086  # a list of words
cc "$work/sample.c" -o "$work/sample_c" $flags
# shellcheck disable=SC2086
c++ -std=c++20 "$work/sample.cpp" -o "$work/sample_cpp" $flags
[ "$(LD_LIBRARY_PATH=$library "$work/sample_c")" = "1 ranks" ]
LD_LIBRARY_PATH=$library "$work/sample_cpp"

echo "== what the library shows"
objdump -p "$library/libtutti.so" | grep -q 'SONAME *libtutti.so.0$'
# The library exports every function of the C header with its version, and otherwise only symbols of namespace tutti.
cat "$work/moved/include/tutti/tutti.h" "$work"/moved/include/tutti/c/*.h | grep -o '\btutti_[a-z_]*(' | tr -d '(' | grep -v '_fn$' |
  sort -u > "$work/promised"
nm -D --defined-only "$library/libtutti.so" | awk '$2 != "A" { print $3 }' > "$work/exported"
sed -n 's/^\(tutti_[a-z_]*\)@@TUTTI_0\.1$/\1/p' "$work/exported" | sort -u > "$work/c_functions"
diff "$work/promised" "$work/c_functions"
if grep -Ev '^(tutti_[a-z_]*|_ZNK?5tutti.*|_ZT[ISV]N5tutti.*)@@TUTTI_0\.1$' "$work/exported" \
  > "$work/foreign"; then
  c++filt < "$work/foreign"
  echo "libtutti.so shows the symbols above, which are not of its interface" >&2
  exit 1
fi
echo "installation works"
