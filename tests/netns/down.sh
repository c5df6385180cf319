#!/bin/sh
# Removes the hosts that `up.sh NAME ...` made, and what still runs on them.
[ $# -eq 1 ] || { echo "usage: down.sh NAME" >&2; exit 2; }
for namespace in $(ip netns list | cut -d ' ' -f 1 | grep -E "^$1-([0-9]+|switch)\$"); do
  for process in $(ip netns pids "$namespace"); do kill -9 "$process"; done
  ip netns del "$namespace"
done
