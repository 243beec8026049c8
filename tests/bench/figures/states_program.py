#!/usr/bin/env python3
"""Makes a training state that only a framework can write, and runs what frameworks have to bring one into another form:

    states_program.py make_zero3 OUT GB
    states_program.py NAME SOURCE HF TARGET

The last line printed by the latter is JSON, as peer_program.py's."""
import json
import os
import shutil
import sys
import tempfile
import time

os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", DS_ACCELERATOR="cpu", LOCAL_SIZE="1", GLOO_SOCKET_IFNAME="lo")

from input_program import FFN, GROUPS, HEADS, HIDDEN, VOCAB, layers_of
from peer_program import _iteration_of, _version

WORLD = 2
STATE_WIDTH = 12  # bytes of a parameter: master and two moments in fp32


def make_zero3(out, gigabytes):
    """What DeepSpeed saves of a Llama at ZeRO stage 3, by two processes, behind one step of AdamW: OUT/source/global_step1 and its config in OUT/hf."""
    import torch
    from transformers import LlamaConfig
    config = LlamaConfig(hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=layers_of(gigabytes, STATE_WIDTH), num_attention_heads=HEADS,
                         num_key_value_heads=GROUPS * HEADS // HIDDEN, vocab_size=VOCAB, tie_word_embeddings=False, architectures=["LlamaForCausalLM"])
    config.save_pretrained(f"{out}/hf")
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(_train, (config, f"{out}/source", f"{directory}/rendezvous"), nprocs=WORLD, start_method="fork")


def _train(rank, config, out, rendezvous):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD))
    import torch
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=WORLD)
    import deepspeed
    from transformers import LlamaForCausalLM
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    settings = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": 3}, "zero_allow_untested_optimizer": True}
    engine = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3), config=settings)[0]
    words = torch.randint(0, config.vocab_size, (1, 16))
    engine.backward(engine(input_ids=words, labels=words).loss)
    engine.step()
    engine.save_checkpoint(out, tag="global_step1")
    torch.distributed.destroy_process_group()


def dcp_copy():
    """torch.distributed.checkpoint, in one process: all tensors are loaded and saved again."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    def work(source, _, target):
        source, target = _iteration_of(source), os.path.join(target, "iter_0000001")
        found = dcp.FileSystemReader(source).read_metadata().state_dict_metadata
        state = {name: torch.empty(one.size, dtype=one.properties.dtype) if isinstance(one, TensorStorageMetadata) else None for name, one in found.items()}
        dcp.load(state, checkpoint_id=source, no_dist=True)
        dcp.save(state, checkpoint_id=target, no_dist=True)
        for name in ("common.pt", "metadata.json"):
            shutil.copy(os.path.join(source, name), target)
    return work, f"torch {torch.__version__} distributed.checkpoint load and save"


def ds_to_universal():
    """DeepSpeed's converter of ZeRO checkpoints to universal ones, with as many processes as cores."""
    import torch
    from deepspeed.checkpoint import ds_to_universal as converter

    def work(source, _, target):
        workers = str(os.cpu_count())
        sys.argv = ["ds_to_universal", "--input_folder", os.path.join(source, "global_step1"), "--output_folder", os.path.join(target, "global_step1_universal"),
                    "--num_extract_workers", workers, "--num_merge_workers", workers]
        converter.main(converter.parse_arguments())
    return work, f"DeepSpeed {_version('deepspeed')} ds_to_universal, torch {torch.__version__}"


def main():
    name, *paths = sys.argv[1:]
    if name == "make_zero3":
        make_zero3(paths[0], float(paths[1]))
        return
    work, version = {"dcp_copy": dcp_copy, "ds_to_universal": ds_to_universal}[name]()
    begin = time.perf_counter()
    work(*paths)
    print(json.dumps({"work_s": time.perf_counter() - begin, "peer": version}), flush=True)


if __name__ == "__main__":
    main()
