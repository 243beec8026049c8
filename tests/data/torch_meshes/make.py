"""Rank files with DTensors over meshes of many kinds, sliced and pickled by torch itself; each element is its row-major position.

make.py DIRECTORY; made with torch 2.15. Its fake process group plays one rank at a time.
"""
import math, os, sys, json
import torch, torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_tensor, Shard, Replicate, DTensor
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.placement_types import _StridedShard
def run(out, shape, names, cases, wrap=lambda tensor, mesh: tensor):
    world = math.prod(shape)
    os.makedirs(out, exist_ok=True)
    for rank in range(world):
        if os.fork():  # torch remembers coordinates: a process for each rank
            if os.wait()[1]:
                sys.exit(f"{out}: rank {rank} failed")
            continue
        dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
        state = {}
        for name, (size, placements, dims) in cases.items():
            full = torch.arange(math.prod(size), dtype=torch.float32).reshape(size)
            m = mesh if dims is None else mesh[dims]
            state[name] = wrap(distribute_tensor(full, m, placements, src_data_rank=None), mesh)
        torch.save(state, f"{out}/model_world_size_{world}_rank_{rank}.pt")
        os._exit(0)
    json.dump({"FSDP_version": 2, "world_size": world}, open(f"{out}/fsdp_config.json", "w"))
S, R, T = Shard, Replicate, _StridedShard
run(sys.argv[1] + "/three_dims", (2, 2, 3), ("ddp", "fsdp", "tp"), {
  "column": ((25, 4), [R(), T(0, split_factor=3), S(0)], None),
  "row": ((9, 11), [R(), S(0), S(1)], None),
  "left_to_right": ((25, 3), [R(), S(0), S(0)], None),
  "norm": ((7,), [R(), S(0), R()], None),
  "copy": ((2, 3), [R(), R(), R()], None),
  "sub": ((10, 2), [S(0)], "fsdp"),
  "sub2": ((10, 5), [R(), S(1)], ("ddp", "tp")),
  "tp_only": ((4, 8), [S(-1)], "tp"),
  "tiny": ((1,), [R(), S(0), R()], None),
  "three": ((3, 5, 7), [S(2), S(0), S(1)], None),
})
run(sys.argv[1] + "/swapped_dims", (2, 2), ("tp", "fsdp"), {
  "tp_first": ((10, 3), [S(0), S(0)], None),
  "mixed": ((10, 6), [S(1), S(0)], None),
})
def fsdp(tensor, mesh):
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(tensor)
    return fully_shard(module, mesh=mesh["fsdp"]).state_dict()["weight"]
run(sys.argv[1] + "/fsdp_over_tp", (3, 3), ("fsdp", "tp"), {
  "column": ((20, 1), [S(0)], "tp"),
  "row": ((5, 7), [S(1)], "tp"),
  "short": ((4,), [S(0)], "tp"),
}, fsdp)
