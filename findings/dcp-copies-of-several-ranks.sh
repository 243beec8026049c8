#!/usr/bin/env bash
# torch 2.15.0: where every rank saves a tensor under the same name (a plain tensor, or a DTensor that is Replicate), torch.distributed.checkpoint keeps one
# copy, and not the same rank's of all: of twelve tensors that three ranks save it stores some of each rank. Which one it is follows from sizes, as the
# writers share the bytes. With DefaultSavePlanner(dedup_save_to_lowest_rank=True) all twelve are rank 0's.
# The guess: that the first rank's copy is kept, as torch.save on rank 0 would.
# Why it matters: replicas are not always equal (running statistics, expert biases updated without a reduction, ranks that drifted). A checkpoint then
# holds a model that no rank had, and neither the saver nor .metadata, which knows one copy, says so.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
environment dcp torch==2.15.0 numpy==2.5.5
cat >"$work/copies.py" <<'P'
import sys, tempfile, warnings
import torch, torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.tensor import DTensor, Replicate, init_device_mesh
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

RANKS, KINDS = 3, ("plain", "replicated")

def names():
    return [f"{kind}.{i}" for kind in KINDS for i in range(6)]

def saved_by(rank, place):
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{place}/meet", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    state = {name: torch.full((4 + i % 6,), float(rank)) for i, name in enumerate(names())}
    for name in names():
        if name.startswith("replicated"):
            state[name] = DTensor.from_local(state[name], mesh, [Replicate()], run_check=False)
    dcp.save(state, checkpoint_id=f"{place}/default")
    dcp.save(state, checkpoint_id=f"{place}/lowest", planner=DefaultSavePlanner(dedup_save_to_lowest_rank=True))
    dist.barrier()
    dist.destroy_process_group()

def ranks_of(directory):
    read = {name: torch.zeros(4 + i % 6) for i, name in enumerate(names())}
    dcp.load(read, checkpoint_id=directory, no_dist=True)
    assert all((tensor == tensor[0]).all() for tensor in read.values())
    return {name: int(tensor[0]) for name, tensor in read.items()}

if __name__ == "__main__":
    place = tempfile.mkdtemp(dir=sys.argv[1])
    torch.multiprocessing.spawn(saved_by, (place,), RANKS)
    default, lowest = ranks_of(f"{place}/default"), ranks_of(f"{place}/lowest")
    print("torch", torch.__version__)
    print("whose copy is stored:", *(f"{name}=rank {rank}" for name, rank in default.items()), sep="\n  ")
    print("with dedup_save_to_lowest_rank:", sorted(set(lowest.values())))
    several = all({rank for name, rank in default.items() if name.startswith(kind)} == set(range(RANKS)) for kind in KINDS)
    sys.exit(not (several and set(lowest.values()) == {0}))
P
"$python" "$work/copies.py" "$work"
