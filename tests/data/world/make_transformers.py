"""transformers' save_pretrained(distributed_checkpoint=True) of a model that its from_pretrained has spread over two ranks.
Usage: torchrun --nproc_per_node 2 make_transformers.py"""
import os
import shutil

import torch.distributed as dist
from common import OUT, toy, whole, write_case
from transformers import AutoModelForCausalLM
from transformers.distributed import DistributedConfig

dist.init_process_group("gloo")
name = "transformers_distributed"
source = os.path.join(OUT, name, "source")
if dist.get_rank() == 0:
    shutil.rmtree(source, ignore_errors=True)
dist.barrier()
start = source + ".start"
toy().save_pretrained(start)
dist.barrier()
model = AutoModelForCausalLM.from_pretrained(start, distributed_config=DistributedConfig(fsdp_size=2))
model.save_pretrained(source, distributed_checkpoint=True)
write_case(name, "a model over two ranks, by FSDP2", model.config.to_dict(), whole(model), ["transformers"])
if dist.get_rank() == 0:
    shutil.rmtree(start)
