#!/bin/sh
# Workers that Open MPI's mpirun starts:
#   WORKERS=4 HOSTFILE=hosts openmpi.sh [FLAGS of dtrain bench]
# Without HOSTFILE all of them run on this machine. With it one runs on each host, the first of them at port 2222 (PORT).
set -e

workers=${WORKERS:-2}
set -- "${DTRAIN:-dtrain}" bench --strategy multi-worker "$@"
if [ -n "$HOSTFILE" ]; then
  first=$(awk '!/^#/ && NF { print $1; exit }' "$HOSTFILE")
  set -- --hostfile "$HOSTFILE" --map-by ppr:1:node "$@" --rendezvous "$first:${PORT:-2222}"
fi

# What processes of this job show each other, so that no other job's can join.
DTRAIN_JOB_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export DTRAIN_JOB_TOKEN

# dtrain pins its replicas itself.
exec "${MPIRUN:-mpirun}" -np "$workers" --bind-to none -x DTRAIN_JOB_TOKEN "$@"
