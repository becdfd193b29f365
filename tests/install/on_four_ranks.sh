#!/bin/bash
# on_four_ranks.sh PROGRAM runs the program as four ranks, each of which must succeed and print its part.
set -u
program=$1
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT

ranks=()
for rank in 0 1 2 3; do
  TUTTI_RUN_ID=four TUTTI_BOOTSTRAP="file://$output/meet" RANK=$rank WORLD_SIZE=4 "$program" > "$output/$rank" &
  ranks+=($!)
done
failed=0
for rank in 0 1 2 3; do
  wait "${ranks[$rank]}" || { echo "rank $rank failed" >&2; failed=1; }
done
cat "$output"/[0-3]
said=$(cat "$output"/[0-3] | grep -Ec '^rank [0-3](: 100 101 102 103| of 4: one sender.*)$')
[ "$failed" = 0 ] && [ "$said" = 4 ]
