#!/usr/bin/env bash
# mpirun.sh RANKS-BY-HOST ARGUMENTS: shardweld from host h1 with ranks as in h1:2,h2:1; its ranks' exit codes and reads go to $HOSTS/ranks.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
layout=$1
shift
n=0
for part in ${layout//,/ }; do
    n=$((n + ${part#*:}))
done
rm -rf "$HOSTS/ranks"
mkdir "$HOSTS/ranks"
# Slurm's own launcher knows nothing of these hosts. Files of Open MPI go where each host has its own.
unset "${!SLURM_@}"
command=(mpirun --host "$layout" -n "$n" --bind-to none --mca plm rsh --mca plm_rsh_agent "$here/ssh.sh" --mca orte_tmpdir_base /dev/shm
    --mca pml ob1 --mca btl self,vader,tcp --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0
    "$here/rank.sh" "$@")
# mpirun ends all ranks as soon as one has failed, before the others can say how they ended; told not to, it returns 0.
[[ -z "${MPIRUN_ENDS_RANKS:-}" ]] || exec "$here/ssh.sh" h1 "${command[*]@Q}"
command=(mpirun --mca orte_abort_on_non_zero_status 0 "${command[@]:1}")
code=0
"$here/ssh.sh" h1 "${command[*]@Q}" || code=$?
((code == 0)) || exit "$code"
exit "$(cat "$HOSTS"/ranks/*.code | sort -n | tail -1)"
