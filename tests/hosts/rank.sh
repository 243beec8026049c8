#!/usr/bin/env bash
# One rank: shardweld with these arguments; notes its exit code and what the kernel counted as read, files and sockets.
# mpirun signals this process alone: where it is to end the ranks, they must not stand behind a shell.
[[ -z "${MPIRUN_ENDS_RANKS:-}" ]] || exec "$SHARDWELD" "$@"
code=0
"$SHARDWELD" "$@" || code=$?
rank=$OMPI_COMM_WORLD_RANK
echo "$code" >"$HOSTS/ranks/$rank.code"
# A process' counters include those of children that have ended.
while read -r name value; do
    [[ $name != rchar: ]] || echo "$value" >"$HOSTS/ranks/$rank.read"
done </proc/$$/io
exit "$code"
