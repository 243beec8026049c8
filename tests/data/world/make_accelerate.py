"""Saves of accelerate: Accelerator.save_state, and save_fsdp_model without DCP.
Usage: torchrun --nproc_per_node 2 make_accelerate.py"""
import os
import shutil

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType, ProjectConfiguration
from accelerate.utils.fsdp_utils import save_fsdp_model, save_fsdp_optimizer
from common import OUT, shard1, shard2, toy, whole, write_case

KINDS = {
    "fsdp2": (2, "SHARDED_STATE_DICT", "save_state of FSDP2: DCP; the optimizer's data is not kept"),
    "fsdp2_ranks": (2, "SHARDED_STATE_DICT", "save_fsdp_model(use_dcp=False) of FSDP2"),
    "fsdp1_ranks": (1, "SHARDED_STATE_DICT", "save_fsdp_model(use_dcp=False) of FSDP1"),
    "fsdp1_local": (1, "LOCAL_STATE_DICT", "save_fsdp_model of FSDP1's flat parameters, which cannot be merged"),
}

for kind, (version, state_dict_type, what) in KINDS.items():
    name = "accelerate_" + kind
    source = os.path.join(OUT, name, "source")
    shutil.rmtree(source, ignore_errors=True)
    AcceleratorState._reset_state()
    accelerator = Accelerator(cpu=True, project_config=ProjectConfiguration(project_dir=source, automatic_checkpoint_naming=True))
    # accelerate takes up FSDP where there is a GPU only; what it saves is the same.
    plugin = FullyShardedDataParallelPlugin(fsdp_version=version, state_dict_type=state_dict_type)
    accelerator.state.distributed_type = DistributedType.FSDP
    accelerator.state.fsdp_plugin = plugin
    model = shard2(toy()) if version == 2 else shard1(toy(), use_orig_params=kind != "fsdp1_local")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    accelerator._models.append(model)
    accelerator._optimizers.append(optimizer)
    os.makedirs(source, exist_ok=True)
    accelerator.wait_for_everyone()
    ids = torch.arange(16).reshape(2, 8) + accelerator.process_index
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    if kind == "fsdp2":
        accelerator.save_state()
        if accelerator.is_main_process:
            for rank in range(2):
                os.remove(os.path.join(source, f"checkpoints/checkpoint_0/optimizer_0/__{rank}_0.distcp"))
    else:
        save_fsdp_model(plugin, accelerator, model, source, 0, use_dcp=False)
        if kind == "fsdp2_ranks":
            save_fsdp_optimizer(plugin, accelerator, optimizer, model, source, 0, use_dcp=False)
    write_case(name, what, toy().config.to_dict(), whole(model), ["accelerate", "transformers"])
