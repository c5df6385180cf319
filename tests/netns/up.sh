#!/bin/sh
# Several hosts on one machine: network namespaces on a switch, each behind a link of a given rate.
#
#   up.sh NAME HOSTS [RATE]    makes the hosts NAME-0, NAME-1, ... with the addresses 10.77.0.1, 10.77.0.2, ...
#                              RATE is of a link, each way, as `tc` writes it: 100mbit, 1gbit (default), none
#   ip netns exec NAME-0 ...   runs a command on the first
#   down.sh NAME               removes them
#
# Needs root, iproute2, and a kernel with veth, bridge and the queueing discipline tbf. All of it lies in namespaces of
# its own, so runs with different names do not meet.
set -e

[ $# -ge 2 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
name=$1 hosts=$2 rate=${3:-1gbit}
switch=$name-switch

# As little as the rate allows may pass at once, so that small tensors meet the link's rate too.
case $rate in
  *gbit | [2-9][0-9][0-9]mbit) burst=128kb ;;
  *) burst=16kb ;;
esac

shape() { # NAMESPACE DEVICE
  [ "$rate" = none ] || tc -n "$1" qdisc replace dev "$2" root tbf rate "$rate" burst $burst limit 8mb
}

undo() { "$(dirname "$0")/down.sh" "$name"; }
trap 'undo; exit 1' INT TERM
trap '[ $? -eq 0 ] || undo' EXIT

ip netns add "$switch"
ip -n "$switch" link add bridge type bridge
ip -n "$switch" link set bridge up
host=0
while [ "$host" -lt "$hosts" ]; do
  ip netns add "$name-$host"
  ip -n "$name-$host" link add eth0 type veth peer name "port$host" netns "$switch"
  ip -n "$switch" link set "port$host" master bridge up
  ip -n "$name-$host" addr add "10.77.0.$((host + 1))/24" dev eth0
  ip -n "$name-$host" link set lo up
  ip -n "$name-$host" link set eth0 up
  shape "$name-$host" eth0
  shape "$switch" "port$host"
  host=$((host + 1))
done
