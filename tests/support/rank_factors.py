"""rank_factors.py LEGACY OUT REGEX: puts factors on such weights of LEGACY, a save of two tensor-parallel ranks that share their rows; OUT is the adapter alone as
torch_dist has it from Megatron-Bridge: B in the pieces of the ranks, each with its rank's rows of all parts of the weight."""
import glob
import os
import re
import sys

import add_factors
import write_megatron

legacy, out, wanted = sys.argv[1:]
saves = [add_factors.Save(path) for path in sorted(glob.glob(legacy + "/*/mp_rank_*/model_optim_rng.pt"))]
names = [name for name in saves[0].model if isinstance(name, str) and re.fullmatch(wanted, name)]
stored = {}
for seed, name in enumerate(names):
    rows, cols = saves[0].tensor(name).args[2]
    add_factors.add_to_ranks(saves, name, seed, (rows * len(saves), cols), {})
    for end in ("linear_in.weight", "linear_out.weight"):
        factor = name[:-len("weight")] + "adapter." + end
        parts = [save.tensor(factor) for save in saves]
        stored[factor] = ("F32", [sum(part.args[2][0] for part in parts), parts[0].args[2][1]],
                          b"".join(save.records[save.record(part.args[0].fields[2])] for save, part in zip(saves, parts)))
for save in saves:
    save.write()
write_megatron.cut = lambda rows, number: [(rank, rows // 2 * rank, rows // 2 * (rank + 1)) for rank in range(2)]
write_megatron.write(stored, out)
with open(os.path.join(out, "metadata.json"), "w", encoding="utf-8") as file:
    file.write('{"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1}')
with open(os.path.join(out, "run_config.yaml"), "w", encoding="utf-8") as file:
    file.write("model:\n  tensor_model_parallel_size: 2\n")
