#!/usr/bin/env python3
"""Runs one other merger, converter or framework's own save, in the Python that has it:

    peer_program.py NAME SOURCE HF TARGET
    peer_program.py same_gguf FILE FILE

The last line printed is JSON: seconds of the work, imports left out, and versions; of the latter the tensors, and those that differ. Peers run as their
authors wrote them, in one process on the CPU; what is replaced is said at each."""
import contextlib
import functools
import importlib.abc
import importlib.machinery
import json
import os
import shutil
import sys
import time
import types

os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", DS_ACCELERATOR="cpu")


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules for what verl imports at the top and merging never uses, where it is not installed."""
    NAMES = ("ray", "tensordict", "datasets", "codetiming", "hydra", "omegaconf", "pandas", "torchdata", "PIL", "dill", "orjson")

    class Anything(types.ModuleType):
        __path__ = []

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {"__init__": lambda s, *a, **k: None, "__call__": lambda s, *a, **k: a[0] if a and callable(a[0]) else s,
                                   "__class_getitem__": classmethod(lambda c, i: c)})

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.NAMES else None

    def create_module(self, spec):
        return self.Anything(spec.name)

    def exec_module(self, module):
        pass


def verl_fsdp():
    """verl's FSDPModelMerger. The synthetic model has no tokenizer: its loading is left out."""
    sys.meta_path.append(StandIns())
    import torch
    import verl.model_merger.base_model_merger as base
    from verl.model_merger.fsdp_model_merger import FSDPModelMerger
    base.hf_tokenizer = base.hf_processor = lambda *given, **named: None

    def work(source, hf, target):
        os.makedirs(target)
        config = base.ModelMergerConfig(operation="merge", backend="fsdp", local_dir=source, target_dir=target, hf_model_config_path=hf)
        FSDPModelMerger(config).merge_and_save()
    return work, f"verl {_version('verl')} FSDPModelMerger, torch {torch.__version__}"


def verl_megatron():
    """verl's MegatronModelMerger over megatron-core's dist_checkpointing, on the CPU with gloo: calls of CUDA do nothing, and the model is built
    from megatron-core's own layers instead of Transformer Engine's, which need CUDA; names in the checkpoint are the same."""
    sys.meta_path.append(StandIns())
    import torch
    import verl.model_merger.base_model_merger as base
    import verl.model_merger.megatron_model_merger as merger
    import verl.models.mcore.model_initializer as initializer
    import verl.utils.megatron_utils as utils
    _without_cuda(torch)  # behind the imports: some look at torch's functions and types
    real_spec = initializer.get_gpt_decoder_block_spec

    @functools.wraps(real_spec)  # verl looks at its parameters
    def local_spec(config, use_transformer_engine, **named):
        return real_spec(config, use_transformer_engine=False, **named)
    initializer.get_gpt_decoder_block_spec = local_spec
    merger.get_device_name, merger.get_nccl_backend = lambda: "cpu", lambda: "gloo"
    merger.get_torch_device = lambda: types.SimpleNamespace(set_device=lambda *given: None)
    merger.set_numa_affinity = lambda: None
    merger.model_parallel_cuda_manual_seed = lambda *given: None
    merger.hf_tokenizer = merger.hf_processor = base.hf_tokenizer = base.hf_processor = lambda *given, **named: None
    utils.get_device_id = lambda: torch.device("cpu")

    def work(source, hf, target):
        utils.get_model_dist_checkpoint_path = lambda _: _iteration_of(source)
        config = base.ModelMergerConfig(operation="merge", backend="megatron", local_dir=source, target_dir=target, hf_model_config_path=hf,
                                        hf_upload_path=None, private=False, test_hf_dir=None, tie_word_embedding=False, trust_remote_code=False, is_value_model=False,
                                        use_cpu_initialization=True)
        merger.MegatronModelMerger(config).merge_and_save()
    return work, f"verl {_version('verl')} MegatronModelMerger, megatron-core {_version('megatron-core')}, torch {torch.__version__}"


def _without_cuda(torch):
    cpu, nothing = torch.device("cpu"), lambda *given, **named: None
    for name in ("synchronize", "empty_cache", "set_device"):
        setattr(torch.cuda, name, nothing)
    torch.cuda.current_device = lambda: cpu
    torch.cuda.get_rng_state = lambda *given, **named: torch.zeros(16, dtype=torch.uint8)
    torch.cuda.memory_allocated = lambda *given, **named: 0
    torch.cuda.current_stream = torch.cuda.Stream = torch.cuda.Event = lambda *given, **named: types.SimpleNamespace(
        wait_stream=nothing, synchronize=nothing, record=nothing, wait=nothing)
    torch.cuda.stream = lambda *given: contextlib.nullcontext()
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *given, **named: self

    def here(make):
        def made(*given, **named):
            named.pop("pin_memory", None)
            if str(named.get("device", "")).startswith("cuda") or isinstance(named.get("device"), int):
                named["device"] = cpu
            return make(*given, **named)
        return made
    for name in ("tensor", "zeros", "empty", "ones", "full", "arange"):
        setattr(torch, name, here(getattr(torch, name)))


def _iteration_of(source):
    """Where the .distcp files are."""
    return next(folder for folder, _, names in os.walk(source) if any(name.endswith(".distcp") for name in names))


def torch_consolidate():
    """torch's consolidation of sharded safetensors, with as many threads as cores."""
    import torch
    from torch.distributed.checkpoint import HuggingFaceStorageReader
    from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files

    def work(source, _, target):
        os.makedirs(target)
        names = HuggingFaceStorageReader(source).read_metadata().state_dict_metadata
        consolidate_safetensors_files(source, target, dict.fromkeys(names, 1), num_threads=os.cpu_count())
    return work, f"torch {torch.__version__} consolidate_safetensors_files"


def transformers_consolidate():
    """transformers' own call of the same, with its one thread."""
    import torch
    from transformers.distributed import consolidate_distributed_checkpoint
    return lambda source, _, target: consolidate_distributed_checkpoint(source, target), \
        f"transformers {_version('transformers')} consolidate_distributed_checkpoint, torch {torch.__version__}"


def dcp_to_torch():
    """torch's dcp_to_torch_save."""
    import torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    def work(source, _, target):
        os.makedirs(target)
        dcp_to_torch_save(source, os.path.join(target, "pytorch_model.bin"))
    return work, f"torch {torch.__version__} dcp_to_torch_save"


def mergekit():
    """mergekit's linear merge of two models, half of each, as its examples have it. They have no tokenizer to copy."""
    import torch
    from mergekit.config import MergeConfiguration
    from mergekit.merge import MergeOptions, run_merge

    def work(first, second, target):
        models = [{"model": path, "parameters": {"weight": 0.5}} for path in (first, second)]
        run_merge(MergeConfiguration.model_validate({"merge_method": "linear", "dtype": "bfloat16", "models": models}), target, MergeOptions(copy_tokenizer=False))
    return work, f"mergekit {_version('mergekit')} linear, torch {torch.__version__}"


def peft():
    """PEFT's merge_and_unload and transformers' save."""
    import torch
    from peft import PeftModel
    from transformers import LlamaForCausalLM

    def work(adapter, base, target):
        model = LlamaForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
        PeftModel.from_pretrained(model, adapter).merge_and_unload().save_pretrained(target)
    return work, f"PEFT {_version('peft')} merge_and_unload, transformers {_version('transformers')}, torch {torch.__version__}"


def llama_cpp():
    """llama.cpp's convert_hf_to_gguf.py, which PYTHONPATH must lead to. The synthetic model has no tokenizer: its loading is left out."""
    import convert_hf_to_gguf as converter
    converter.get_model_class("LlamaForCausalLM").set_vocab = lambda self: None

    def work(source, _, target):
        os.makedirs(target)
        sys.argv = ["convert_hf_to_gguf.py", source, "--outfile", os.path.join(target, "model-q8_0.gguf"), "--outtype", "q8_0"]
        converter.main()
    return work, f"llama.cpp convert_hf_to_gguf.py, gguf {_version('gguf')}"


def same_gguf(ours, theirs):
    """How many tensors two files have, and how many are not the same in both."""
    from gguf import GGUFReader
    here, there = ({tensor.name: (tensor.tensor_type, tensor.shape.tolist(), tensor.data) for tensor in GGUFReader(path).tensors} for path in (ours, theirs))
    same = [name for name in here.keys() & there.keys() if here[name][:2] == there[name][:2] and (here[name][2] == there[name][2]).all()]
    print(json.dumps({"tensors": len(here.keys() | there.keys()), "different": len(here.keys() | there.keys()) - len(same)}))


def zero_to_fp32():
    """DeepSpeed's converter of ZeRO checkpoints to safetensors."""
    import deepspeed
    import torch
    from deepspeed.utils.zero_to_fp32 import convert_zero_checkpoint_to_fp32_state_dict

    def work(source, _, target):
        convert_zero_checkpoint_to_fp32_state_dict(source, target, max_shard_size="5GB", safe_serialization=True)
    return work, f"DeepSpeed {deepspeed.__version__} zero_to_fp32, torch {torch.__version__}"


def _one_rank_of_megatron():
    """megatron-core's dist_checkpointing in a gloo group of one process, and the versions; calls of CUDA do nothing."""
    import torch
    import torch.distributed as dist
    from megatron.core import dist_checkpointing, parallel_state
    _without_cuda(torch)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    return dist_checkpointing, f"megatron-core {_version('megatron-core')} dist_checkpointing.%s, torch {torch.__version__}"


def megatron_load_save():
    """megatron-core loads all tensors whole and saves them so, in its names and layout. What to load is listed here: load_plain_tensors of 0.19.2 fails with
    torch 2.15 (TypeError: empty() got 'strides')."""
    import torch
    from torch.distributed.checkpoint import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    dist_checkpointing, version = _one_rank_of_megatron()
    whole = dist_checkpointing.ShardedTensor.from_rank_offsets

    def work(source, _, target):
        source, release = _iteration_of(source), os.path.join(target, "release")
        os.makedirs(release)
        found = FileSystemReader(source).read_metadata().state_dict_metadata
        wanted = {name: whole(name, torch.empty(one.size, dtype=one.properties.dtype)) for name, one in found.items() if isinstance(one, TensorStorageMetadata)}
        names = list(wanted)
        loaded = dist_checkpointing.load(wanted, source)
        dist_checkpointing.save({**loaded, **{name: whole(name, loaded[name]) for name in names}}, release)
        _name_release(target)
    return work, version % "load and save"


def _name_release(target):
    with open(os.path.join(target, "latest_checkpointed_iteration.txt"), "w", encoding="utf-8") as file:
        file.write("release")


def megatron_save():
    """megatron-core's save of a model's tensors under its names and in its layout, as its GPTModel of one rank would give them: no module is built."""
    dist_checkpointing, version = _one_rank_of_megatron()

    def work(source, hf, target):
        with open(os.path.join(hf, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        os.makedirs(os.path.join(target, "release"))
        dist_checkpointing.save(_megatron_tensors(_safetensors(source), config), os.path.join(target, "release"))
        _name_release(target)
    return work, version % "save"


def _megatron_tensors(tensors, config):
    """Of a Llama: query groups beside their keys and values, gate and up in one, layers as chunks of one tensor."""
    import torch
    from megatron.core.dist_checkpointing import ShardedTensor
    n_layers, groups = config["num_hidden_layers"], config["num_key_value_heads"]
    state = {}

    def put(name, tensor, layer=None):
        whole = () if layer is None else ((0, layer, n_layers),)
        state[f"{name}.{layer}"] = ShardedTensor.from_rank_offsets(name, tensor, *whole, prepend_axis_num=len(whole))

    put("embedding.word_embeddings.weight", tensors["model.embed_tokens.weight"])
    put("decoder.final_layernorm.weight", tensors["model.norm.weight"])
    put("output_layer.weight", tensors["lm_head.weight"])
    for layer in range(n_layers):
        of, to = f"model.layers.{layer}.", "decoder.layers."
        rows = [tensors[f"{of}self_attn.{one}_proj.weight"].unflatten(0, (groups, -1)) for one in "qkv"]
        put(to + "self_attention.linear_qkv.weight", torch.cat(rows, 1).flatten(0, 1), layer)
        put(to + "self_attention.linear_qkv.layer_norm_weight", tensors[of + "input_layernorm.weight"], layer)
        put(to + "self_attention.linear_proj.weight", tensors[of + "self_attn.o_proj.weight"], layer)
        put(to + "mlp.linear_fc1.weight", torch.cat([tensors[of + "mlp.gate_proj.weight"], tensors[of + "mlp.up_proj.weight"]]), layer)
        put(to + "mlp.linear_fc1.layer_norm_weight", tensors[of + "post_attention_layernorm.weight"], layer)
        put(to + "mlp.linear_fc2.weight", tensors[of + "mlp.down_proj.weight"], layer)
    return state


def dcp_save():
    """torch.distributed.checkpoint.save of a model's tensors, in one process."""
    import torch
    import torch.distributed.checkpoint as dcp

    def work(source, _, target):
        dcp.save({"model": _safetensors(source)}, checkpoint_id=target, no_dist=True)
    return work, f"torch {torch.__version__} distributed.checkpoint.save"


def _safetensors(source):
    """All tensors of a model."""
    from safetensors.torch import load_file
    found = {}
    for name in sorted(os.listdir(source)):
        if name.endswith(".safetensors"):
            found.update(load_file(os.path.join(source, name)))
    return found


def quantise(encoding):
    """transformers' or compressed-tensors' functions, tensor by tensor over the safetensors of a merged model, one file at a time."""
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file
    codes_of, version = {"fp8-block": _fp8_block, "w8a16": _w8a16}[encoding]()

    def work(source, _, target):
        os.makedirs(target)
        for name in sorted(os.listdir(source)):
            if name.endswith(".safetensors"):
                written = {}
                with safe_open(os.path.join(source, name), "pt") as file:
                    for key in file.keys():
                        tensor = file.get_tensor(key)
                        written.update(codes_of(key, tensor) if key.endswith("_proj.weight") else {key: tensor})
                save_file({key: tensor.contiguous() for key, tensor in written.items()}, os.path.join(target, name), {"format": "pt"})
            elif name.endswith(".json"):
                shutil.copy(os.path.join(source, name), target)
        _index_again(target)
    return work, f"{version}, torch {torch.__version__}"


def _index_again(target):
    """The codes' tensors have other names."""
    path = os.path.join(target, "model.safetensors.index.json")
    if os.path.exists(path):
        from safetensors import safe_open
        files = {}
        for name in sorted(os.listdir(target)):
            if name.endswith(".safetensors"):
                with safe_open(os.path.join(target, name), "pt") as file:
                    files.update({key: name for key in file.keys()})
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"metadata": {}, "weight_map": files}, file)


def _fp8_block():
    from transformers.integrations.finegrained_fp8 import Fp8Quantize
    config = types.SimpleNamespace(weight_block_size=(128, 128), scale_fmt="float")
    quantise_one = Fp8Quantize(types.SimpleNamespace(quantization_config=config))
    return lambda key, tensor: quantise_one.convert({key: tensor}), f"transformers {_version('transformers')} Fp8Quantize"


def _w8a16():
    from compressed_tensors.compressors import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationScheme
    from compressed_tensors.quantization.quant_scheme import preset_name_to_scheme
    from compressed_tensors.quantization.utils import calculate_qparams
    scheme: QuantizationScheme = preset_name_to_scheme("W8A16", ["Linear"])

    def codes_of(key, tensor):
        groups = tensor.unflatten(-1, (-1, scheme.weights.group_size))
        scale, _ = calculate_qparams(groups.amin(-1), groups.amax(-1), scheme.weights)
        made = PackedQuantizationCompressor.compress({"weight": tensor, "weight_scale": scale}, scheme)
        return {key.removesuffix("weight") + name: value for name, value in made.items()}
    return codes_of, f"compressed-tensors {_version('compressed-tensors')} PackedQuantizationCompressor"


def _version(package):
    import importlib.metadata
    return importlib.metadata.version(package)


PEERS = {"verl_fsdp": verl_fsdp, "verl_megatron": verl_megatron, "torch_consolidate": torch_consolidate, "zero_to_fp32": zero_to_fp32, "mergekit": mergekit,
         "transformers_consolidate": transformers_consolidate, "dcp_to_torch": dcp_to_torch, "peft": peft, "llama_cpp": llama_cpp, "megatron_load_save": megatron_load_save,
         "megatron_save": megatron_save, "dcp_save": dcp_save,
         "quantise_fp8-block": lambda: quantise("fp8-block"), "quantise_w8a16": lambda: quantise("w8a16")}


def main():
    name, *paths = sys.argv[1:]
    if name == "same_gguf":
        same_gguf(*paths)
        return
    work, version = PEERS[name]()
    begin = time.perf_counter()
    work(*paths)
    print(json.dumps({"work_s": time.perf_counter() - begin, "peer": version}), flush=True)


if __name__ == "__main__":
    main()
