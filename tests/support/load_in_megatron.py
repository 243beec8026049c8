#!/usr/bin/env python3
"""Loads a training checkpoint into megatron-core's own model and compares what it computes with transformers' model.

    load_in_megatron.py HF CHECKPOINT [tp=N] [pp=N] [ep=N] [spec=te|local] [strict=WORD]

HF is a complete model directory (Llama, Qwen2, Qwen3, Qwen3 MoE); CHECKPOINT is of Megatron's distributed or legacy format. Runs tp * pp processes
on the CPU. Transformer Engine needs CUDA: modules of its names and its parameters stand in for it. Exits 1 when something is not loaded or a logit
is not what transformers computes.
"""
import contextlib
import functools
import os
import pathlib
import sys
import tempfile

os.environ.update(OMP_NUM_THREADS="1", CUDA_DEVICE_MAX_CONNECTIONS="1")

import torch
import torch.distributed as dist
import torch.nn.functional as F
import transformers
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.utils import replace_prefix_for_sharding
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.tensor_parallel import random as parallel_random
from megatron.core.tensor_parallel.layers import ColumnParallelLinear
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.identity_op import IdentityOp
from megatron.core.transformer.moe import experts as moe_experts
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.utils import make_sharded_tensors_for_checkpoint

CPU = torch.device("cpu")


class NoStream(contextlib.nullcontext):
    pass


def stay_on_cpu():
    """megatron-core asks for the current CUDA device and its random numbers, whatever the model is on."""
    torch.cuda.current_device = lambda: CPU
    torch.cuda.synchronize = torch.cuda.empty_cache = lambda *_: None
    torch.cuda.Stream = NoStream
    torch.cuda.current_stream = lambda *_: NoStream()
    torch.Tensor.cuda = lambda self, *_, **__: self
    moe_utils.te_general_gemm = None  # 0.16 looks it up even without Transformer Engine
    parallel_random.CudaRNGStatesTracker.fork = lambda *_, **__: contextlib.nullcontext()


class NormedColumnParallelLinear(ColumnParallelLinear):
    """Has the norm before it, as TELayerNormColumnParallelLinear has."""

    def __init__(self, input_size, output_size, *, config, **options):
        super().__init__(input_size, output_size, config=config, **options)
        self.layer_norm_weight = torch.nn.Parameter(torch.empty(input_size))

    def forward(self, hidden, *more, **options):
        normed = F.rms_norm(hidden, hidden.shape[-1:], self.layer_norm_weight, self.config.layernorm_epsilon)
        return super().forward(normed, *more, **options)

    def sharded_state_dict(self, prefix="", sharded_offsets=(), metadata=None):
        return make_sharded_tensors_for_checkpoint(
            self.state_dict(keep_vars=True), prefix, {"weight": 0, "bias": 0}, sharded_offsets, tp_group=self.tp_group, dp_cp_group=metadata["dp_cp_group"]
        )


class GroupedLinear(torch.nn.Module):
    """The experts of a rank, as TEGroupedLinear names them: weight0, weight1..."""

    cut_dim = 0

    def __init__(self, n_experts, input_size, output_size, *, pg_collection, **_):
        super().__init__()
        self.groups = pg_collection
        shape = [output_size, input_size]
        shape[self.cut_dim] //= pg_collection.expt_tp.size()
        self.weights = [torch.nn.Parameter(torch.empty(shape)) for _ in range(n_experts)]
        for expert, weight in enumerate(self.weights):
            self.register_parameter(f"weight{expert}", weight)
        self.register_load_state_dict_pre_hook(self.drop_extra_states)

    @staticmethod
    def drop_extra_states(_, state, prefix, *__):
        for key in [key for key in state if key.startswith(f"{prefix}_extra_state")]:
            del state[key]

    def forward(self, tokens, tokens_per_expert):
        parts = torch.split(tokens, [int(number) for number in tokens_per_expert])
        return torch.cat([part @ weight.T for part, weight in zip(parts, self.weights)]), None

    def sharded_state_dict(self, prefix="", sharded_offsets=(), metadata=None):
        first = self.groups.ep.rank() * len(self.weights)
        n_experts = self.groups.ep.size() * len(self.weights)
        found = {}
        for expert, weight in enumerate(self.weights):
            own = {f"{expert}.weight": weight, f"{expert}._extra_state": None}
            offsets = (*sharded_offsets, (len(sharded_offsets), first + expert, n_experts))
            sharded = make_sharded_tensors_for_checkpoint(
                own, "", {f"{expert}.weight": self.cut_dim}, offsets, tp_group=self.groups.expt_tp, dp_cp_group=metadata["dp_cp_group"]
            )
            replace_prefix_for_sharding(sharded, f"{expert}.", prefix)
            found[f"{prefix}weight{expert}"] = sharded[f"{expert}.weight"]
            found[f"{prefix}_extra_state{expert or ''}"] = sharded[f"{expert}._extra_state"]
        for one in found.values():
            one.replica_id = (*one.replica_id[:2], self.groups.expt_dp.rank())
        return found


class RowParallelGroupedLinear(GroupedLinear):
    cut_dim = 1


def parts_of(spec):
    """A ModuleSpec (megatron-core 0.16) or a partial (0.19)."""
    return spec.keywords["submodules"] if isinstance(spec, functools.partial) else spec.submodules


def grouped_experts():
    linears = {"linear_fc1": GroupedLinear, "linear_fc2": RowParallelGroupedLinear}
    if hasattr(moe_experts, "GroupedMLPSubmodules"):
        return functools.partial(moe_experts.TEGroupedMLP, submodules=moe_experts.GroupedMLPSubmodules(**linears))
    from megatron.core.transformer.mlp import MLPSubmodules
    from megatron.core.transformer.spec_utils import ModuleSpec

    return ModuleSpec(module=moe_experts.TEGroupedMLP, submodules=MLPSubmodules(**linears))


def name_as_transformer_engine(spec, config):
    for layer in spec.layer_specs:
        layer.submodules.input_layernorm = IdentityOp
        layer.submodules.self_attention.submodules.linear_qkv = NormedColumnParallelLinear
        layer.submodules.sharded_state_dict_keys_map = {}
        if config.num_moe_experts:
            parts_of(layer.submodules.mlp).experts = grouped_experts()
        else:
            layer.submodules.pre_mlp_layernorm = IdentityOp
            parts_of(layer.submodules.mlp).linear_fc1 = NormedColumnParallelLinear


def config_of(hf, sizes):
    n_experts = getattr(hf, "num_experts", None) or getattr(hf, "num_local_experts", None)
    options = dict(num_moe_experts=n_experts, moe_ffn_hidden_size=hf.moe_intermediate_size, moe_router_topk=hf.num_experts_per_tok) if n_experts else {}
    return TransformerConfig(
        num_layers=hf.num_hidden_layers,
        hidden_size=hf.hidden_size,
        num_attention_heads=hf.num_attention_heads,
        num_query_groups=hf.num_key_value_heads,
        kv_channels=getattr(hf, "head_dim", None) or hf.hidden_size // hf.num_attention_heads,
        ffn_hidden_size=hf.intermediate_size,
        layernorm_epsilon=hf.rms_norm_eps,
        add_qkv_bias=hf.model_type == "qwen2",
        qk_layernorm=hf.model_type.startswith("qwen3"),
        normalization="RMSNorm",
        add_bias_linear=False,
        gated_linear_unit=True,
        activation_func=F.silu,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        use_cpu_initialization=True,
        pipeline_dtype=torch.float32,
        gradient_accumulation_fusion=False,
        apply_rope_fusion=False,
        persist_layer_norm=False,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        moe_token_dispatcher_type="allgather",
        moe_router_load_balancing_type="none",
        moe_router_pre_softmax=False,
        tensor_model_parallel_size=sizes["tp"],
        pipeline_model_parallel_size=sizes["pp"],
        expert_model_parallel_size=sizes["ep"],
        expert_tensor_parallel_size=sizes["tp"] // sizes["ep"] if n_experts else None,
        **options,
    )


def build(hf, sizes, spec_name):
    config = config_of(hf, sizes)
    spec = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization="RMSNorm")
    if spec_name == "te":
        name_as_transformer_engine(spec, config)
    step = 128 * sizes["tp"]
    return GPTModel(
        config,
        spec,
        -(-hf.vocab_size // step) * step,
        64,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        parallel_output=False,
        share_embeddings_and_output_weights=hf.tie_word_embeddings,
        position_embedding_type="rope",
        rotary_base=hf.rope_parameters["rope_theta"],
    ).eval()


def load_distributed(model, release, strict):
    metadata = {"singleton_local_shards": False, "dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True)}
    sharded = {"model": model.sharded_state_dict(metadata=metadata)}
    found = dist_checkpointing.load(sharded, str(release), strict=strict)
    assert found["checkpoint_version"] == 3.0 and found["iteration"] == 0, found.keys()
    model.load_state_dict(found["model"], strict=True)


def load_legacy(model, release, sizes):
    name = f"mp_rank_{parallel_state.get_tensor_model_parallel_rank():02d}"
    if sizes["pp"] > 1:
        name += f"_{parallel_state.get_pipeline_model_parallel_rank():03d}"
    if sizes["ep"] > 1:
        name += f"_{parallel_state.get_expert_model_parallel_rank():03d}"
    found = torch.load(release / name / "model_optim_rng.pt", weights_only=True)
    model.load_state_dict(found["model"], strict=True)


def compute(model, tokens, hidden_size):
    """Stage after stage; the logits where the last stage is."""
    rows, length = tokens.shape
    ranks = dist.get_process_group_ranks(parallel_state.get_pipeline_model_parallel_group())
    stage = parallel_state.get_pipeline_model_parallel_rank()
    if not model.pre_process:
        before = torch.empty(length, rows, hidden_size)
        dist.recv(before, ranks[stage - 1])
        model.set_input_tensor(before)
    mask = torch.ones(length, length, dtype=torch.bool).triu(1)[None, None]
    with torch.no_grad():
        out = model(tokens, torch.arange(length).expand(rows, length), mask)
    if not model.post_process:
        dist.send(out.contiguous(), ranks[stage + 1])
    return out if model.post_process else None


def run(rank, world, rendezvous, hf_dir, checkpoint, sizes, words):
    stay_on_cpu()
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    hf = transformers.AutoConfig.from_pretrained(hf_dir)
    expert_tp = {"expert_tensor_parallel_size": sizes["tp"] // sizes["ep"]} if sizes["ep"] > 1 else {}
    parallel_state.initialize_model_parallel(sizes["tp"], sizes["pp"], expert_model_parallel_size=sizes["ep"], **expert_tp)
    model = build(hf, sizes, words["spec"])
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, float("nan"))  # what is not loaded shows
    release = pathlib.Path(checkpoint) / "release"
    if (release / "metadata.json").exists():
        load_distributed(model, release, words["strict"])
    else:
        load_legacy(model, release, sizes)
    tokens = torch.arange(3, 35).reshape(2, 16) % hf.vocab_size
    logits = compute(model, tokens, hf.hidden_size)
    if logits is not None:
        wanted = transformers.AutoModelForCausalLM.from_pretrained(hf_dir, dtype=torch.float32).eval()
        with torch.no_grad():
            wanted = wanted(input_ids=tokens).logits
        found = logits[..., : hf.vocab_size].reshape(wanted.shape)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        print(f"logits differ by at most {(found - wanted).abs().max():.1e} of {wanted.abs().max():.1f}")
    dist.barrier()
    dist.destroy_process_group()


def main():
    hf_dir, checkpoint = sys.argv[1:3]
    words = {"spec": "te", "strict": "assume_ok_unexpected", **dict(word.split("=") for word in sys.argv[3:])}
    sizes = {name: int(words.pop(name, 1)) for name in ("tp", "pp", "ep")}
    world = sizes["tp"] * sizes["pp"]
    with tempfile.TemporaryDirectory() as directory:
        arguments = (world, f"{directory}/rendezvous", hf_dir, checkpoint, sizes, words)
        torch.multiprocessing.start_processes(run, arguments, nprocs=world, start_method="fork")


if __name__ == "__main__":
    main()
