#!/usr/bin/env python3
"""Reads all tensors of a checkpoint or a model into PyTorch's memory, one after the other, each of which is dropped before the next:

    reading_program.py safe_open|torch_load|torch_dcp CHECKPOINT    with CHECKPOINT/source and CHECKPOINT/hf
    reading_program.py safetensors MODEL

Every way ends with memory of its own that holds the bytes. The line printed is JSON: seconds with the opening and without imports, bytes, memory."""
import json
import logging
import pathlib
import resource
import sys
import time
import warnings

import torch


def safe_open(path):
    import shardweld
    logging.getLogger("shardweld").setLevel(logging.ERROR)

    def sizes():
        with shardweld.safe_open(path / "source", "pt", hf_config=path / "hf") as opened:
            for name in opened.offset_keys():
                yield opened.get_tensor(name).nbytes
    return sizes, f"torch {torch.__version__}"


def safetensors(path):
    """Its tensors are views of the file: a copy reads them."""
    import safetensors

    def sizes():
        for file in sorted(path.glob("*.safetensors")):
            with safetensors.safe_open(file, "pt") as opened:
                for name in opened.keys():
                    yield opened.get_tensor(name).clone().nbytes
    return sizes, f"safetensors {safetensors.__version__}, torch {torch.__version__}"


def torch_load(path):
    """The pieces of all ranks, mapped, and joined tensor by tensor."""
    def sizes():
        ranks = [torch.load(file, weights_only=False, mmap=True) for file in sorted(path.glob("source/model_world_size_*.pt"))]
        for name in ranks[0]:
            yield torch.cat([getattr(rank[name], "_local_tensor", rank[name]) for rank in ranks]).nbytes
    return sizes, f"torch {torch.__version__} torch.load"


def torch_dcp(path):
    """One tensor a load, of those that are tensors: all of them at once take the model's memory."""
    import torch.distributed.checkpoint as dcp
    folder = next(path.glob("source/**/.metadata")).parent

    def sizes():
        reader = dcp.FileSystemReader(folder)
        for name, one in reader.read_metadata().state_dict_metadata.items():
            if hasattr(one, "size"):
                state = {name: torch.empty(one.size, dtype=one.properties.dtype)}
                dcp.load(state, storage_reader=dcp.FileSystemReader(folder), no_dist=True)
                yield state.pop(name).nbytes
    return sizes, f"torch {torch.__version__} DCP"


def main():
    warnings.simplefilter("ignore")
    way, path = sys.argv[1:]
    sizes, version = {"safe_open": safe_open, "safetensors": safetensors, "torch_load": torch_load, "torch_dcp": torch_dcp}[way](pathlib.Path(path))
    begin, cpu = time.perf_counter(), time.process_time()
    n_bytes = sum(sizes())
    print(json.dumps({"work_s": time.perf_counter() - begin, "work_cpu_s": time.process_time() - cpu, "bytes": n_bytes, "version": version,
                      "resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)


if __name__ == "__main__":
    main()
