#!/usr/bin/env python3
"""Merges a checkpoint with verl's own merger, on a CPU.

    run_verl_merger.py fsdp|megatron LOCAL_DIR TARGET_DIR [merger's options]

LOCAL_DIR is a role's directory with its huggingface/, as for `python -m verl.model_merger merge`, whose code runs unchanged. For Megatron
only what needs a GPU is replaced: device and backend (cpu, gloo), seeds of CUDA, and Transformer Engine's layers by megatron-core's own,
which load the same checkpoints.
"""
import functools
import os
import sys
import types


def use_cpu():
    import torch
    import verl.utils.device as device

    device.get_device_name = lambda: "cpu"
    device.get_nccl_backend = lambda: "gloo"
    import megatron.core.models.gpt.gpt_layer_specs as specs
    import verl.models.mcore.model_initializer as initializer
    import verl.model_merger.megatron_model_merger as merger
    import verl.utils.megatron_utils as utils

    merger.get_device_name, merger.get_nccl_backend = device.get_device_name, device.get_nccl_backend
    merger.set_numa_affinity = lambda: None
    merger.model_parallel_cuda_manual_seed = lambda *_: None
    merger.get_torch_device = lambda: types.SimpleNamespace(set_device=lambda *_: None)
    utils.get_device_id = lambda: torch.device("cpu")
    block_spec = specs.get_gpt_decoder_block_spec

    @functools.wraps(block_spec)
    def without_engine(config, *_, use_transformer_engine=False, **more):
        return block_spec(config, use_transformer_engine=False, **more)

    initializer.get_gpt_decoder_block_spec = without_engine


def main():
    backend, local_dir, target_dir, *options = sys.argv[1:]
    os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", MASTER_ADDR="127.0.0.1")
    if backend == "megatron":
        use_cpu()
        options.append("--use_cpu_initialization")
    from verl.model_merger.base_model_merger import generate_config_from_args, parse_args

    sys.argv[1:] = ["merge", "--backend", backend, "--local_dir", local_dir, "--target_dir", target_dir, *options]
    config = generate_config_from_args(parse_args())
    if backend == "megatron":
        from verl.model_merger.megatron_model_merger import MegatronModelMerger as Merger
    else:
        from verl.model_merger.fsdp_model_merger import FSDPModelMerger as Merger
    merger = Merger(config)
    merger.merge_and_save()
    merger.cleanup()


if __name__ == "__main__":
    main()
