#!/usr/bin/env python3
"""Usage: newest_peers.py SHARDWELD OUT [--record] [CASE..]     run by newest-peers.sh in the environment that it makes

Small checkpoints, made on the CPU by the save code of the training frameworks that are installed, merged by SHARDWELD and compared byte for
byte with the model that the framework held, or refused. Says what differs from newest_peers.json, which --record writes: versions, names of files, classes
that stay inert, what is left aside, warnings. What cannot be imported or saved is told with the reason. Exit code 1: a merge was wrong.
"""

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import typing

HERE = pathlib.Path(__file__).resolve()
KNOWN = HERE.with_suffix(".json")
MAKE_FAMILIES = HERE.parent.parent / "tests/support/make_families.py"
FAMILIES = ["llama", "gemma3_text", "qwen3_moe", "gpt_neox"]
COMPARE = HERE.parent.parent / "tests/support/compare_safetensors.py"
RANKS = 2
CASES = {}
SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 8, "max_position_embeddings": 64, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


class Case(typing.NamedTuple):
    packages: list  # whose versions are told
    options: tuple  # of merge
    save: object  # function(rank, out): saves into out/source
    pins: str  # whose own requirements lie in front of the environment, in pins/NAME
    limit_s: int
    code: int  # of merge: another than 0 where the save is to be refused


def case(packages, *options, pins="", limit_s=600, code=0):
    """A case, called as its function."""
    def add(function):
        CASES[function.__name__] = Case(packages.split(), options, function, pins, limit_s, code)
        return function
    return add


# Models

def whole_model(out, rank):
    """A Llama of random bf16 values, the same on each rank; out/expected is what it holds."""
    import torch
    import transformers

    torch.manual_seed(11)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).to(torch.bfloat16)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape).to(parameter.dtype) * 0.1)
    if rank == 0:
        model.save_pretrained(out / "expected")
    torch.distributed.barrier()
    return model


def mesh():
    import torch

    return torch.distributed.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("fsdp",))


# Cases of the module tree

@case("torch transformers")
def torch_rank_files(rank, out):
    import torch
    from torch.distributed.fsdp import fully_shard

    model = whole_model(out, rank)
    fully_shard(model, mesh=mesh())
    (out / "source").mkdir(exist_ok=True)
    (out / "source/fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": RANKS}))
    torch.save(model.state_dict(), out / f"source/model_world_size_{RANKS}_rank_{rank}.pt")


@case("torch transformers")
def torch_dcp(rank, out):
    import torch
    import torch.distributed.checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.fsdp import fully_shard

    model = whole_model(out, rank)
    fully_shard(model, mesh=mesh())
    weights, moments = get_state_dict(model, torch.optim.AdamW(model.parameters()))
    torch.distributed.checkpoint.save({"model": weights, "optim": moments, "step": 3}, checkpoint_id=out / "source")


@case("transformers", "--backend", "hf")
def transformers_shards(rank, out):
    model = whole_model(out, rank)
    if rank == 0:
        model.save_pretrained(out / "source", max_shard_size="20KB")


@case("transformers torch")
def transformers_distributed(rank, out):
    import torch
    import transformers
    from transformers.distributed import DistributedConfig

    whole_model(out, rank)
    model = transformers.AutoModelForCausalLM.from_pretrained(out / "expected", dtype=torch.bfloat16, distributed_config=DistributedConfig(fsdp_size=RANKS))
    model.save_pretrained(out / "source", distributed_checkpoint=True)


def torch_checkpointing_saved(rank, out, layout):
    """The manager gathers its metadata over CUDA only, and files of some disks cannot be written past the cache."""
    import torch.distributed
    from torch.distributed.fsdp import fully_shard
    from torch_checkpointing.checkpoint_manager import CheckpointManager
    from torch_checkpointing.default_resharder import DefaultResharder
    from torch_checkpointing.metadata_manager import DefaultMetadataManager
    from torch_checkpointing.schema import ItemSpec
    from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

    def gathered(_, data, process_group=None):
        everyone = [None] * RANKS
        torch.distributed.all_gather_object(everyone, data, process_group)
        return dict(enumerate(everyone))
    DefaultMetadataManager._all_gather_pickled_data = gathered
    model = whole_model(out, rank)
    fully_shard(model, mesh=mesh())
    config = CheckpointManager.Config.with_sync_save()
    config.storage_config = LocalFileSystemStorageConfig(use_direct_io=False)
    config.items = {"model": ItemSpec(layout=layout, resharder=DefaultResharder()), "optimizer": ItemSpec(resharder=DefaultResharder())}
    optimizer = torch.optim.AdamW(model.parameters())
    manager = config.build()
    manager.save(str(out / "source/step-3"), {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3})
    manager.close()


@case("torch_checkpointing torch")
def torch_checkpointing_torch(rank, out):
    torch_checkpointing_saved(rank, out, None)


@case("torch_checkpointing torch")
def torch_checkpointing_safetensors(rank, out):
    from torch_checkpointing.checkpoint_layout import LayoutInfo, SafetensorsSerialization

    torch_checkpointing_saved(rank, out, LayoutInfo("model_{rank}.safetensors", SafetensorsSerialization()))


def peft_rank_files(rank, out, adapters):
    import peft
    import torch
    from torch.distributed.fsdp import fully_shard

    config = peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"])
    model = peft.get_peft_model(whole_model(out, rank), config, adapter_name=adapters[0])
    for name in adapters[1:]:
        model.add_adapter(name, config)
    model.to(torch.bfloat16)
    fully_shard(model, mesh=mesh())
    (out / "source").mkdir(exist_ok=True)
    torch.save(model.state_dict(), out / f"source/model_world_size_{RANKS}_rank_{rank}.pt")


@case("peft torch transformers", "--lora", "drop")
def peft_fsdp2(rank, out):
    peft_rank_files(rank, out, ["default"])


@case("peft torch transformers", "--lora", "drop")  # of which one's name is part of the other's
def peft_two_adapters(rank, out):
    peft_rank_files(rank, out, ["a", "a_b"])


@case("nemo-automodel torch transformers")
def automodel(rank, out):
    from nemo_automodel.components.checkpoint.checkpointing import Checkpointer, CheckpointingConfig
    from torch.distributed.fsdp import fully_shard

    model = whole_model(out, rank)
    fully_shard(model, mesh=mesh())
    config = CheckpointingConfig(checkpoint_dir=str(out / "source"), model_repo_id=str(out / "expected"), save_consolidated=False)
    Checkpointer(config, rank, 0, 0).save_model(model, str(out / "source/epoch_0_step_3"))


@case("transformers torch")
def families(rank, out):
    """Small models of several classes, each by rank files, held against save_pretrained."""
    import torch.distributed

    if rank == 0:
        subprocess.run([sys.executable, str(MAKE_FAMILIES), str(MAKE_FAMILIES.parent.parent / "data/hf_names"), str(out / "made"), *FAMILIES], check=True)
        for name in FAMILIES:
            (out / "made" / name / "fsdp").rename(out / "made" / name / "source")
    torch.distributed.barrier()


@case("verl torch", pins="verl")
def verl_fsdp(rank, out):
    import torch
    import verl.utils.device

    verl.utils.device.get_device_name = lambda: "cpu"
    verl.utils.device.get_device_id = lambda: "cpu"
    import verl.utils.fsdp_utils
    from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager

    model = whole_model(out, rank)
    verl.utils.fsdp_utils.apply_fsdp2(model, {"mesh": mesh(), "reshard_after_forward": True}, {})
    optimizer = torch.optim.AdamW(model.parameters())
    contents = ["model", "optimizer", "extra"]
    manager = FSDPCheckpointManager(model=model, optimizer=optimizer, lr_scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0),
                                    processing_class=None, checkpoint_config={"save_contents": contents, "load_contents": contents})
    manager.save_checkpoint(str(out / "source"), global_step=3)


def zero(rank, out, stage):
    import deepspeed
    import torch

    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False)
    model = whole_model(out, rank)
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": stage}, "bf16": {"enabled": True},
              "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0), config=config)
    tokens = torch.arange(8).reshape(1, 8)
    engine.backward(engine(input_ids=tokens, labels=tokens).loss)
    engine.step()
    engine.save_checkpoint(str(out / "source"))


@case("deepspeed torch transformers", "--dtype", "bf16", limit_s=1800)  # of the masters that are exactly the weights; it compiles first
def deepspeed_zero1(rank, out):
    zero(rank, out, 1)


@case("deepspeed torch transformers", "--dtype", "bf16", limit_s=1800)  # of the masters that are exactly the weights
def deepspeed_zero3(rank, out):
    zero(rank, out, 3)


@case("deepspeed torch transformers", limit_s=1800, code=5)  # experts as AutoEP packs them are not read
def deepspeed_auto_ep(rank, out):
    import deepspeed
    import torch
    import transformers

    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False)
    torch.manual_seed(11)
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**SIZES, num_local_experts=4)).to(torch.bfloat16)
    if rank == 0:
        model.save_pretrained(out / "expected")
    torch.distributed.barrier()
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, "bf16": {"enabled": True}, "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False, "expert_parallel": {"enabled": True, "autoep_size": RANKS, "preset_model": "mixtral", "use_grouped_mm": False}}
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0), config=config)
    engine.save_checkpoint(str(out / "source"))


# Megatron: layers of megatron-core's own, for those of Transformer Engine need CUDA.

def without_cuda():
    """The calls of torch.cuda that Megatron makes whether there is a device or not."""
    import torch

    cpu = torch.device("cpu")
    torch.cuda.current_device = lambda: cpu
    for name in ("synchronize", "empty_cache", "set_device"):
        setattr(torch.cuda, name, lambda *_, **__: None)
    torch.cuda.get_rng_state = lambda *_, **__: torch.zeros(16, dtype=torch.uint8)
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.nn.Module.cuda = lambda self, *_, **__: self

    def on_cpu(make):
        def made(*values, **options):
            if str(options.get("device", "")).startswith("cuda"):
                options["device"] = cpu
            return make(*values, **options)
        return made
    for name in ("tensor", "zeros", "empty", "ones"):
        setattr(torch, name, on_cpu(getattr(torch, name)))


def megatron_tensor(name, weights):
    """What a parameter of one rank's GPTModel is, whole and with the hub's values; gate and up as two halves."""
    import torch

    heads = {"embedding.word_embeddings.weight": "model.embed_tokens.weight", "decoder.final_layernorm.weight": "model.norm.weight",
             "output_layer.weight": "lm_head.weight"}
    if name in heads:
        return weights[heads[name]]
    _, _, layer, module = name.split(".", 3)
    of = lambda part: weights[f"model.layers.{layer}.{part}.weight"]  # noqa: E731
    if module == "self_attention.linear_qkv.weight":
        groups, size = SIZES["num_key_value_heads"], SIZES["hidden_size"]
        parts = [of(f"self_attn.{part}_proj").reshape(groups, -1, size) for part in "qkv"]
        return torch.cat(parts, 1).reshape(-1, size)
    if module == "mlp.linear_fc1.weight":
        return torch.stack([of("mlp.gate_proj"), of("mlp.up_proj")])
    return of({"input_layernorm": "input_layernorm", "self_attention.linear_proj": "self_attn.o_proj", "pre_mlp_layernorm": "post_attention_layernorm",
               "mlp.linear_fc2": "mlp.down_proj"}[module.removesuffix(".weight")])


def fill(model, weights, rank):
    """Gives a GPTModel of two tensor-parallel ranks the values of `weights`."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            whole = megatron_tensor(name, weights)
            if getattr(parameter, "tensor_model_parallel", False):
                whole = whole.chunk(RANKS, parameter.partition_dim + (whole.dim() - parameter.dim()))[rank]
            parameter.copy_(whole.reshape(parameter.shape))


def megatron_model(rank, out):
    """A GPTModel on two tensor-parallel ranks, with the weights of whole_model."""
    import torch

    without_cuda()
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel, gpt_layer_specs
    from megatron.core.transformer.transformer_config import TransformerConfig

    weights = whole_model(out, rank).state_dict()
    parallel_state.initialize_model_parallel(RANKS)
    config = TransformerConfig(
        num_layers=SIZES["num_hidden_layers"], hidden_size=SIZES["hidden_size"], num_attention_heads=SIZES["num_attention_heads"],
        num_query_groups=SIZES["num_key_value_heads"], kv_channels=SIZES["head_dim"], ffn_hidden_size=SIZES["intermediate_size"],
        add_bias_linear=False, gated_linear_unit=True, activation_func=torch.nn.functional.silu, normalization="RMSNorm",
        use_cpu_initialization=True, params_dtype=torch.bfloat16, bf16=True, tensor_model_parallel_size=RANKS, gradient_accumulation_fusion=False,
        apply_rope_fusion=False, persist_layer_norm=False, bias_activation_fusion=False, bias_dropout_fusion=False, masked_softmax_fusion=False)
    model = GPTModel(config, gpt_layer_specs.get_gpt_layer_local_spec(normalization="RMSNorm"), SIZES["vocab_size"], 64, parallel_output=True,
                     share_embeddings_and_output_weights=False, position_embedding_type="rope").to(torch.bfloat16)
    fill(model, weights, rank)
    return model


def megatron_lm(rank, out, form):
    model = megatron_model(rank, out)
    from megatron.training import arguments, checkpointing, global_vars

    sys.argv = [
        "pretrain", "--num-layers", "2", "--hidden-size", "32", "--num-attention-heads", "4", "--group-query-attention", "--num-query-groups", "2",
        "--kv-channels", "8", "--ffn-hidden-size", "48", "--seq-length", "64", "--max-position-embeddings", "64", "--swiglu", "--normalization",
        "RMSNorm", "--disable-bias-linear", "--untie-embeddings-and-output-weights", "--position-embedding-type", "rope", "--bf16",
        "--tensor-model-parallel-size", str(RANKS), "--micro-batch-size", "1", "--ckpt-format", form, "--save", str(out / "source"), "--no-save-optim",
        "--vocab-size", "96", "--transformer-impl", "local"]
    args = arguments.parse_args(ignore_unknown_args=True)
    args.rank, args.world_size, args.padded_vocab_size, args.params_dtype = rank, RANKS, 96, model.config.params_dtype
    args.use_dist_ckpt = form != "torch"
    global_vars.set_args(args)
    checkpointing.save_checkpoint(3, [model], None, None, 0.0)


@case("megatron-core torch")
def megatron_lm_torch_dist(rank, out):
    megatron_lm(rank, out, "torch_dist")


@case("megatron-core torch")
def megatron_lm_torch(rank, out):
    megatron_lm(rank, out, "torch")


@case("megatron-bridge megatron-core torch", pins="megatron-bridge")
def megatron_bridge(rank, out):
    model = megatron_model(rank, out)
    from megatron.bridge.training import model_load_save

    model_load_save.save_megatron_model([model], str(out / "source"))


@case("megatron-bridge megatron-core torch", pins="megatron-bridge")
def megatron_bridge_auto(rank, out):
    """By its own conversion of the hub's model, and its own save."""
    import torch

    without_cuda()
    whole_model(out, rank)
    from megatron.bridge import AutoBridge

    bridge = AutoBridge.from_hf_pretrained(str(out / "expected"), torch_dtype=torch.bfloat16)
    provider = bridge.to_megatron_provider()
    provider.tensor_model_parallel_size = RANKS
    provider.finalize()
    provider.initialize_model_parallel(seed=0)
    bridge.save_megatron_model(provider.provide_distributed_model(wrap_with_ddp=False, use_cpu_initialization=True), str(out / "source"))


# Running them

def run_rank(name, out, rank):
    import torch.distributed

    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS))
    torch.distributed.init_process_group("gloo", init_method=f"file://{out}/meeting", rank=rank, world_size=RANKS)
    CASES[name].save(rank, out)
    torch.distributed.barrier()
    os._exit(0)  # some frameworks leave workers behind that are waited for


def make(name, out):
    """Saves; "" or why not."""
    out.mkdir(parents=True)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu", "HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "lo",
                   "PYTHONPATH": os.pathsep.join([*filter(None, [pins_of(out, CASES[name])]), *filter(None, [os.environ.get("PYTHONPATH")])]),
                   "CUDA_DEVICE_MAX_CONNECTIONS": "1", "OMP_NUM_THREADS": "1", "LOCAL_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29817"}
    logs = [open(out / f"rank_{rank}.log", "w") for rank in range(RANKS)]  # noqa: SIM115: the ranks write into them
    ranks = [subprocess.Popen([sys.executable, str(HERE), "--rank", name, str(out), str(rank)], env=environment, stdout=logs[rank], stderr=logs[rank])
             for rank in range(RANKS)]
    otherwise = "it ended without a word: see rank_0.log"
    try:
        codes = [one.wait(CASES[name].limit_s) for one in ranks]
    except subprocess.TimeoutExpired:
        codes, otherwise = [1], "no answer in time"
    for one in ranks:
        one.kill()
    if not any(codes):
        return ""
    text = "\n".join((out / f"rank_{rank}.log").read_text() for rank in range(RANKS))
    told = re.search(r"^(?:\[rank\d+\]: )?([\w.]*(?:Error|Exception)\b.*)", text, re.MULTILINE)
    return (told[1] if told else otherwise)[:300]


def pins_of(out, one):
    return str(out.parent.parent / "pins" / one.pins) if one.pins else ""


def merged(shardweld, out, options, code=0):
    """What is wrong with the merge, "" for nothing."""
    command = [shardweld, "merge", "--local_dir", out / "source", "--hf_config", out / "expected", *options, "--target_dir", out / "merged",
               "--report", out / "report.json", "-q"]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if run.returncode != code:
        return f"exit code {run.returncode}: {run.stderr.strip()}"
    if code:
        return ""
    compare = subprocess.run([sys.executable, str(COMPARE), str(out / "merged"), str(out / "expected")], capture_output=True, text=True)
    return compare.stderr.strip() if compare.returncode else ""


def facts(shardweld, out, one):
    """What a checkpoint is made of, without numbers."""
    paths = [pins_of(out, one), *sys.path] if one.pins else sys.path
    versions = {name: next(importlib.metadata.distributions(name=name, path=paths)).version for name in one.packages}
    if one.code:
        return {"versions": versions, "refused with": one.code}
    report = json.loads((out / "report.json").read_text())
    run = subprocess.run([shardweld, "inspect", "--json", "--local_dir", str(out / "source")], capture_output=True, text=True)
    inspected = json.loads(run.stdout) if run.returncode == 0 else {}
    names = {re.sub(r"\d+", "#", str(path.relative_to(out / "source"))) for path in (out / "source").rglob("*") if path.is_file()}
    return {"versions": versions, "format": report["input"]["format"],
            "files": sorted(names), "inert classes": sorted(inspected.get("inert_globals", {})),
            "left aside": sorted({row["pattern"] for row in report["ledger"]["ignored"]}),
            "warnings": sorted({one["code"] for one in report["warnings"]})}


def changes(found, known):
    for part, value in found.items():
        before = known.get(part)
        if isinstance(value, list):
            yield from (f"new in {part}: {one}" for one in value if one not in (before or []))
            yield from (f"gone from {part}: {one}" for one in before or [] if one not in value)
        elif value != before:
            yield f"{part}: {value}" + (f", was {before}" if before else "")


def main():
    if sys.argv[1] == "--rank":
        run_rank(sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4]))
    shardweld, out, *wanted = sys.argv[1:]
    record = "--record" in wanted
    wanted = [name for name in wanted if name != "--record"]
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    n_wrong = 0
    for name, one in CASES.items():
        if wanted and name not in wanted:
            continue
        place = pathlib.Path(out).absolute() / name
        reason = make(name, place)
        if reason:
            print(f"{name}: not made: {reason}", flush=True)
            continue
        parts = [place / "made" / family for family in FAMILIES] if name == "families" else [place]
        fault = "; ".join(filter(None, (merged(shardweld, part, one.options, one.code) for part in parts)))
        n_wrong += bool(fault)
        print(f"{name}: {'WRONG: ' + fault if fault else f'refused with {one.code}' if one.code else 'the same bytes'}", flush=True)
        if not fault:
            found = facts(shardweld, parts[0], one)
            for line in changes(found, known.get(name, {})):
                print(f"  {line}", flush=True)
            known[name] = found
            if record:
                KNOWN.write_text(json.dumps(known, indent=1) + "\n")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()
