"""A model of holes, which make_checkpoint does not make, from a plan of shardweld's. Knows headers of safetensors; nothing of who reads them. Format:
github.com/huggingface/safetensors, README."""
import json
import math
import os
import shutil
import struct
import subprocess

WIDTH = 2  # all are bf16


def planned_tensors(place, model, checkpoint):
    """The tensors of a merge, in its files' order: name, shape, file."""
    said = subprocess.run([place.program("shardweld"), "plan", *model.merged_with(), "--local_dir", f"{checkpoint}/source", "--hf_config", f"{checkpoint}/hf",
                           "--dtype", "bf16", "--json", "-q"], capture_output=True, text=True, check=True).stdout
    return json.loads(said)["tensors"]


def write_header(file, shapes, metadata):
    header, end = {"__metadata__": metadata}, 0
    for name, shape in shapes:
        size = math.prod(shape) * WIDTH
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    file.write(struct.pack("<Q", len(text)) + text)
    return 8 + len(text) + end


def write_holes(directory, tensors, config):
    """A model directory whose tensors are all holes."""
    os.makedirs(directory)
    files = {}
    for tensor in tensors:
        files.setdefault(tensor["file"], []).append((tensor["name"], tensor["shape"]))
    for name, shapes in files.items():
        with open(os.path.join(directory, name), "wb") as file:
            file.truncate(write_header(file, shapes, {"format": "pt"}))
    index = {"metadata": {}, "weight_map": {tensor: name for name, shapes in files.items() for tensor, _ in shapes}}
    with open(os.path.join(directory, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump(index, file)
    shutil.copy(config, directory)
