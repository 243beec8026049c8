#!/usr/bin/env python3
"""Loads an optimizer's states with the frameworks that train, compares them with those that were trained, and does one more step.

    load_states.py expect HF EXPECTED OUT [decay=all]
    load_states.py torch|verl|dcp HF WANTED CHECKPOINT WORLD
    load_states.py megatron HF WANTED CHECKPOINT [tp=N] [dp=N] [ep=N]

"expect" writes what is wanted of the other calls: OUT/before-param, -exp_avg and -exp_avg_sq (those of EXPECTED), OUT/gradient, and OUT/after-*, what
torch's own AdamW makes of whole tensors in one step. Each is a model directory; with decay=all every parameter decays. "megatron" reads each as
weights from its directory's torch_dist/, which reshape writes. Runs on the CPU. Exits 1 when a bit of a state differs, before the step or after it.
"""
import json
import os
import pathlib
import shutil
import sys
import tempfile
import zlib

import torch
import torch.distributed as dist
import transformers
from safetensors.torch import load_file, save_file

STATES = ("param", "exp_avg", "exp_avg_sq")


def read(directory, name):
    return load_file(pathlib.Path(directory) / name / "model.safetensors")


def settings_of(directory):
    settings = json.loads((pathlib.Path(directory) / "optimizer.json").read_text())
    return {**settings, "betas": tuple(settings["betas"])}


def gradient_of(name, shape):
    """Such as bf16 holds, for engines that keep gradients in it."""
    return (torch.randn(shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode()))) * 0.02).bfloat16().float()


def step_whole(states, gradients, settings):
    """What AdamW makes of whole tensors. The states are changed in place."""
    parameters = {name: torch.nn.Parameter(tensor) for name, tensor in states["param"].items()}
    options = dict(lr=settings["lr"], betas=settings["betas"], eps=settings["eps"])
    still = settings["no_weight_decay"]
    groups = [{"params": [one], "weight_decay": 0.0 if name in still else settings["weight_decay"]} for name, one in parameters.items()]
    optimizer = torch.optim.AdamW(groups, **options)
    for name, one in parameters.items():
        one.grad = gradients[name]
        optimizer.state[one] = {"step": torch.tensor(float(settings["step"])), **{state: states[state][name] for state in STATES[1:]}}
    optimizer.step()


def expect(hf, expected, out, decay=None):
    settings = settings_of(expected)
    if decay == "decay=all":
        settings["no_weight_decay"] = []

    def write(name, tensors):
        directory = pathlib.Path(out) / name
        directory.mkdir(parents=True)
        shutil.copy(pathlib.Path(hf) / "config.json", directory)
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})

    states = {state: load_file(pathlib.Path(expected) / f"{state}.safetensors") for state in STATES}
    gradients = {name: gradient_of(name, tensor.shape) for name, tensor in states["param"].items()}
    for state in STATES:
        write(f"before-{state}", states[state])
    write("gradient", gradients)
    step_whole(states, gradients, settings)
    for state in STATES:
        write(f"after-{state}", states[state])
    (pathlib.Path(out) / "optimizer.json").write_text(json.dumps(settings))


def same(found, wanted, what):
    if not torch.equal(found, wanted):
        raise AssertionError(f"{what} differs by up to {(found - wanted).abs().max():.1e}")


# --- torch: FSDP2, verl's manager, torch.distributed.checkpoint


def new_optimizer(named, still):
    """With settings that nobody has, so that those of the checkpoint show. Groups are by decay where some parameters do not."""
    groups = [[one for name, one in named.items() if (name in still) == stays] for stays in (False, True)]
    return torch.optim.AdamW([{"params": group} for group in groups if group], lr=7.0, betas=(0.5, 0.5), eps=7.0, weight_decay=7.0)


def load_by_torch(model, optimizer, checkpoint):
    from load_in_fsdp2 import load_by_torch as load_weights

    load_weights(model, checkpoint)
    name = f"optim_world_size_{dist.get_world_size()}_rank_{dist.get_rank()}.pt"
    optimizer.load_state_dict(torch.load(pathlib.Path(checkpoint) / name, weights_only=False))


def load_by_verl(model, optimizer, checkpoint):
    from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager

    contents = {"load_contents": ["model", "optimizer", "extra"]}
    FSDPCheckpointManager(model, optimizer, checkpoint_config=contents).load_checkpoint(checkpoint)


def load_by_dcp(model, optimizer, checkpoint):
    from torch.distributed.checkpoint import load
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    of_model, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": of_model, "optim": of_optimizer}
    load(state, checkpoint_id=checkpoint)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])


LOADERS = {"torch": load_by_torch, "verl": load_by_verl, "dcp": load_by_dcp}


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def compare_torch(named, optimizer, wanted, when, step):
    for state in STATES:
        tensors = read(wanted, f"{when}-{state}")
        assert tensors.keys() == named.keys(), tensors.keys() ^ named.keys()
        for name, one in named.items():
            same(whole(one.detach() if state == "param" else optimizer.state[one][state]), tensors[name], f"{when}: {state} of {name}")
    for one in named.values():
        assert float(optimizer.state[one]["step"]) == step, optimizer.state[one]["step"]


def compare_settings(named, optimizer, settings):
    names = {one: name for name, one in named.items()}
    for group in optimizer.param_groups:
        assert (group["lr"], tuple(group["betas"]), group["eps"]) == (settings["lr"], settings["betas"], settings["eps"]), group
        for one in group["params"]:
            assert group["weight_decay"] == (0.0 if names[one] in settings["no_weight_decay"] else settings["weight_decay"]), names[one]


def run_torch(rank, loader, world, hf, wanted, checkpoint, rendezvous):
    from load_in_fsdp2 import LOADERS as SHARDERS
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_tensor

    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(hf), dtype=torch.float32)
    SHARDERS["verl" if loader == "verl" else "torch"][0](model, init_device_mesh("cpu", (world,), mesh_dim_names=("fsdp",)))
    named, settings = dict(model.named_parameters()), settings_of(wanted)
    for one in named.values():
        torch.nn.init.constant_(one.to_local(), float("nan"))  # what is not loaded shows
    optimizer = new_optimizer(named, settings["no_weight_decay"])
    LOADERS[loader](model, optimizer, checkpoint)
    compare_torch(named, optimizer, wanted, "before", settings["step"])
    compare_settings(named, optimizer, settings)
    gradients = read(wanted, "gradient")
    for name, one in named.items():
        one.grad = distribute_tensor(gradients[name], one.device_mesh, one.placements)
    optimizer.step()
    compare_torch(named, optimizer, wanted, "after", settings["step"] + 1)
    if rank == 0:
        print(f"{len(named)} parameters' states loaded by {loader}")
    dist.destroy_process_group()


# --- megatron-core


def stay_on_cpu():
    """What the optimizer asks of CUDA, beside what the model does."""
    import load_in_megatron

    load_in_megatron.stay_on_cpu()
    torch.cuda.Event = torch.cuda.stream = load_in_megatron.NoStream
    torch.nn.Module.cuda = lambda self, *_, **__: self

    def on_cpu(make):
        return lambda *shape, **options: make(*shape, **{**options, "device": "cpu"} if str(options.get("device", "")).startswith("cuda") else options)

    for name in ("tensor", "zeros", "empty", "full"):
        setattr(torch, name, on_cpu(getattr(torch, name)))
    type_of = torch.Tensor.type
    # Parameters of other types than CUDA's are refused.
    torch.Tensor.type = lambda self, *to, **options: type_of(self, *to, **options) if to else type_of(self).replace("torch.", "torch.cuda.")


class FusedAdam(torch.optim.Optimizer):
    """Stands in for Transformer Engine's, which needs CUDA: settings and step are the group's. Without one, megatron-core takes torch's own Adam, and
    stops when it loads its states.
    """

    def __init__(self, params, lr, weight_decay, betas, eps, adam_w_mode, **_):
        assert adam_w_mode
        super().__init__(params, dict(lr=lr, bias_correction=True, betas=betas, eps=eps, weight_decay=weight_decay))

    def step(self):
        for group in self.param_groups:
            assert group["bias_correction"] and isinstance(group.get("step", 0), int), group.keys()
            if not group["params"]:
                continue
            steps = [torch.tensor(float(group.get("step", 0))) for _ in group["params"]]
            moments = [[self.state[one][name] for one in group["params"]] for name in STATES[1:]]
            options = dict(beta1=group["betas"][0], beta2=group["betas"][1], **{name: group[name] for name in ("lr", "weight_decay", "eps")})
            gradients = [one.grad for one in group["params"]]
            with torch.no_grad():
                torch.optim._functional.adamw(group["params"], gradients, *moments, [], steps, foreach=False, amsgrad=False, maximize=False, **options)
            group["step"] = group.get("step", 0) + 1


def weights_of(like, directory):
    """What the parameters of `like` are in a model directory's torch_dist; NaN in rows that fill the vocabulary up, which are the checkpoint's own."""
    import load_in_megatron
    from megatron.core import parallel_state

    for one in like.parameters():
        torch.nn.init.constant_(one, float("nan"))
    load_in_megatron.load_distributed(like, directory / "torch_dist" / "release", "assume_ok_unexpected")
    found = {name: one.detach().clone() for name, one in like.named_parameters()}
    vocabulary = json.loads((directory / "config.json").read_text())["vocab_size"]
    for name, one in found.items():
        if "embedding" in name or "output_layer" in name:
            one[max(0, vocabulary - len(one) * parallel_state.get_tensor_model_parallel_rank()) :] = float("nan")
    return found


def new_megatron_optimizer(model, has_experts):
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core import optimizer as of_core
    from megatron.core.optimizer import distrib_optimizer
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

    of_core.Adam = distrib_optimizer.Adam = FusedAdam
    of_core.USING_PYTORCH_OPTIMIZER = False
    distrib_optimizer.HAVE_APEX_OR_TE = distrib_optimizer.USING_TE_OPTIMIZER = True
    model.config.bf16 = True
    for name, one in model.named_parameters():
        one.allreduce = not (has_experts and ".experts." in name)
    of_model = DistributedDataParallelConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=True)
    wrapped = DistributedDataParallel(config=model.config, ddp_config=of_model, module=model)
    settings = dict(lr=0.01, min_lr=0.0, weight_decay=7.0, adam_beta1=0.5, adam_beta2=0.5, adam_eps=7.0)
    config = OptimizerConfig(optimizer="adam", bf16=True, params_dtype=torch.bfloat16, use_distributed_optimizer=True, clip_grad=0.0, **settings)
    optimizer = get_megatron_optimizer(config, [wrapped])
    rates = dict(init_lr=7.0, max_lr=7.0, min_lr=7.0, lr_warmup_steps=7, lr_decay_steps=77, lr_decay_style="cosine")
    decay = dict(start_wd=7.0, end_wd=7.0, wd_incr_steps=77, wd_incr_style="linear")
    scheduler = OptimizerParamScheduler(optimizer, **rates, **decay, use_checkpoint_opt_param_scheduler=True, override_opt_param_scheduler=False)
    return wrapped, optimizer, scheduler


def load_megatron(wrapped, optimizer, scheduler, directory):
    """The steps of Megatron-LM's load_checkpoint."""
    from megatron.core import dist_checkpointing, parallel_state

    metadata = dist_checkpointing.load_content_metadata(directory)
    metadata["dp_cp_group"] = parallel_state.get_data_parallel_group(with_context_parallel=True)
    sharded = {"model": wrapped.module.sharded_state_dict(metadata=metadata), "opt_param_scheduler": scheduler.state_dict()}
    sharded["optimizer"] = optimizer.sharded_state_dict(sharded, is_loading=True, metadata=metadata)
    found = dist_checkpointing.load(sharded, directory, strict="assume_ok_unexpected")
    wrapped.module.load_state_dict(found["model"], strict=True)
    optimizer.load_state_dict(found["optimizer"])
    scheduler.load_state_dict(found["opt_param_scheduler"])
    scheduler.step(increment=0)  # it sets the rate when it loads, and the decay from here on


def states_of(optimizer, wrapped):
    """State by state the whole tensors of this rank's part of the model, of which data-parallel ranks have pieces each."""
    states = {state: {} for state in STATES}
    names = {one: name for name, one in wrapped.module.named_parameters()}
    for part in getattr(optimizer, "chained_optimizers", [optimizer]):
        for buffer in part.buffers:
            for one in buffer.params:
                group = part.data_parallel_group
                pieces = part._get_main_param_and_optimizer_states(one) if one in part.model_param_gbuf_map else {}
                for state in STATES:
                    flat = torch.zeros(one.numel())
                    if pieces:
                        at = part._get_model_param_range_map(one)["param"]
                        flat[at.start : at.end] = pieces[state].detach()
                    dist.all_reduce(flat, group=group)
                    states[state][names[one]] = flat.reshape(one.shape)
    return states


def compare_megatron(optimizer, wrapped, like, wanted, when, rank):
    found = states_of(optimizer, wrapped)
    for state in STATES:
        for name, tensor in weights_of(like, wanted / f"{when}-{state}").items():
            known = ~tensor.isnan()
            assert known.all() or "embedding" in name or "output_layer" in name, name
            same(found[state][name][known], tensor[known], f"{when}: {state} of {name} on rank {rank}")
    return len(found["param"])


def compare_groups(optimizer, settings):
    for group in optimizer.param_groups:
        told = {name: value for name, value in group.items() if name != "params"}
        assert (told["lr"], tuple(told["betas"]), told["eps"], told["step"]) == tuple(settings[name] for name in ("lr", "betas", "eps", "step")), told
        assert told["weight_decay"] == told["wd_mult"] * settings["weight_decay"], told


def run_megatron(rank, world, hf_dir, wanted, checkpoint, sizes, rendezvous):
    import load_in_megatron
    from megatron.core import parallel_state

    stay_on_cpu()
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    expert_tp = {"expert_tensor_parallel_size": sizes["tp"] // sizes["ep"]} if sizes["ep"] > 1 else {}
    parallel_state.initialize_model_parallel(sizes["tp"], 1, expert_model_parallel_size=sizes["ep"], **expert_tp)
    hf, wanted = transformers.AutoConfig.from_pretrained(hf_dir), pathlib.Path(wanted)
    like, model = (load_in_megatron.build(hf, {**sizes, "pp": 1}, "te").to(dtype) for dtype in (torch.float32, torch.bfloat16))
    wrapped, optimizer, scheduler = new_megatron_optimizer(model, sizes["ep"] > 1)
    for one in model.parameters():
        torch.nn.init.constant_(one, float("nan"))
    tracker = pathlib.Path(checkpoint) / "latest_checkpointed_iteration.txt"
    load_megatron(wrapped, optimizer, scheduler, f"{checkpoint}/iter_{int(tracker.read_text()):07d}")
    count = compare_megatron(optimizer, wrapped, like, wanted, "before", rank)
    compare_groups(optimizer, settings_of(wanted))
    gradients = weights_of(like, wanted / "gradient")
    for name, one in model.named_parameters():
        one.main_grad.copy_(gradients[name].nan_to_num())
    assert optimizer.step()[0]
    compare_megatron(optimizer, wrapped, like, wanted, "after", rank)
    if rank == 0:
        print(f"{count} parameters' states loaded by megatron-core")
    dist.destroy_process_group()


def start(run, world, *arguments):
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(run, (*arguments, f"{directory}/rendezvous"), nprocs=world, start_method="fork")


def main():
    what, *arguments = sys.argv[1:]
    if what == "expect":
        expect(*arguments)
    elif what == "megatron":
        hf, wanted, checkpoint, *words = arguments
        sizes = {"tp": 1, "dp": 1, "ep": 1, **{name: int(value) for name, value in (word.split("=") for word in words)}}
        world = sizes["tp"] * sizes.pop("dp")
        start(run_megatron, world, world, hf, wanted, checkpoint, sizes)
    else:
        hf, wanted, checkpoint, world = arguments
        start(run_torch, int(world), what, int(world), hf, wanted, checkpoint)


if __name__ == "__main__":
    main()
