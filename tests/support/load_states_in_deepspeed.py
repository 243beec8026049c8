#!/usr/bin/env python3
"""Loads a universal checkpoint with DeepSpeed, compares the optimizer's states with those that were trained, and does one more step.

    load_states_in_deepspeed.py HF WANTED CHECKPOINT STAGE WORLD

WANTED is what `load_states.py expect` writes. Runs on the CPU, with torch's AdamW as the engine's optimizer. Exits 1 when a bit of a state differs,
before the step or after it. Stage 3 loads the first group's settings for all groups and one step count for all tensors, so it does no step here.
"""
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", CUDA_VISIBLE_DEVICES="", LOCAL_SIZE="1", OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")

import deepspeed
import torch
import torch.distributed as dist
import transformers

import load_states
from load_states import STATES


def engine_of(hf, stage, still):
    """An engine whose weights are no numbers, so that what is not loaded shows."""
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(hf), dtype=torch.float32)
    for one in model.parameters():
        torch.nn.init.constant_(one, float("nan"))
    optimizer = load_states.new_optimizer(dict(model.named_parameters()), still)
    settings = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": stage}, "checkpoint": {"load_universal": True}}
    return deepspeed.initialize(model=model, optimizer=optimizer, config={**settings, "zero_allow_untested_optimizer": True})[0]


def states_of_partitions(engine, world):
    """Stages 1 and 2: each rank has a part of each group's flat tensor."""
    states, names = {state: {} for state in STATES}, {one: name for name, one in engine.module.named_parameters()}
    zero = engine.optimizer
    for group, part in enumerate(zero.single_partition_of_fp32_groups):
        for state in STATES:
            own = (part if state == "param" else zero.optimizer.state[part][state]).detach().contiguous()
            parts = [torch.empty_like(own) for _ in range(world)]
            dist.all_gather(parts, own)
            whole, at = torch.cat(parts), 0
            for one in zero.round_robin_bit16_groups[group]:
                states[state][names[one]] = whole[at : at + one.numel()].reshape(one.shape).clone()
                at += one.numel()
    return states


def states_of_tensors(engine):
    """Stage 3: each rank has a part of each tensor."""
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    states = {state: {} for state in STATES}
    for name, one in engine.module.named_parameters():
        for state in STATES:
            found = safe_get_full_fp32_param(one) if state == "param" else safe_get_full_optimizer_state(one, state)
            states[state][name] = found.detach().float().reshape(one.ds_shape)
    return states


def compare(found, wanted, when):
    for state in STATES:
        tensors = load_states.read(wanted, f"{when}-{state}")
        assert tensors.keys() == found[state].keys(), tensors.keys() ^ found[state].keys()
        for name, tensor in tensors.items():
            load_states.same(found[state][name], tensor, f"{when}: {state} of {name}")


def compare_steps(optimizer, step):
    for state in optimizer.state.values():
        assert float(state["step"]) == step, state["step"]


def compare_settings(groups, settings):
    """Those that decay come first."""
    for group, decay in zip(groups, (settings["weight_decay"], 0.0), strict=True):
        assert group["weight_decay"] == decay, group
        assert (group["lr"], tuple(group["betas"]), group["eps"]) == (settings["lr"], settings["betas"], settings["eps"]), group


def step_once(engine, gradients):
    """A loss whose gradients are those given, alike on every rank."""
    loss = sum((one * gradients[name].to(one.dtype)).sum() for name, one in engine.module.named_parameters())
    engine.backward(loss)
    engine.step()


def run(rank, world, hf, wanted, checkpoint, stage, rendezvous):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, dist_init_required=False)
    settings = load_states.settings_of(wanted)
    engine = engine_of(hf, stage, settings["no_weight_decay"])
    engine.load_checkpoint(checkpoint)
    states = lambda: states_of_tensors(engine) if stage == 3 else states_of_partitions(engine, world)
    compare(states(), wanted, "before")
    compare_steps(engine.optimizer.optimizer, settings["step"])
    if stage < 3:
        compare_settings(engine.optimizer.optimizer.param_groups, settings)
        step_once(engine, load_states.read(wanted, "gradient"))
        compare(states(), wanted, "after")
        compare_steps(engine.optimizer.optimizer, settings["step"] + 1)
    if rank == 0:
        print(f"{len(list(engine.module.named_parameters()))} parameters' states loaded by DeepSpeed {deepspeed.__version__}")
    dist.destroy_process_group()


def main():
    hf, wanted, checkpoint, stage, world = sys.argv[1:]
    load_states.start(run, int(world), int(world), hf, wanted, checkpoint, int(stage))


if __name__ == "__main__":
    main()
