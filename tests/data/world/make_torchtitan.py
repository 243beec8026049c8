"""Saves of torchtitan's CheckpointManager: its models, on the CPU; the expected model is what its own adapter makes of them.
Usage: torchrun --nproc_per_node 2 make_torchtitan.py"""
import os
import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torchtitan.models.llama3 as llama3
import torchtitan.models.qwen3 as qwen3
from common import OUT, SIZES, whole, write_case
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.optimizer import default_adamw
from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm
from torchtitan.models.common.rope import CosSinRoPE

DIM, WORDS, HEADS, GROUPS, HEAD = 16, 32, 4, 2, 8
PARTS = {
    "dim": DIM, "vocab_size": WORDS,
    "tok_embeddings": Embedding.Config(num_embeddings=WORDS, embedding_dim=DIM, param_init=llama3._EMBEDDING_INIT),
    "norm": RMSNorm.Config(normalized_shape=DIM, param_init=llama3._NORM_INIT),
    "lm_head": Linear.Config(in_features=DIM, out_features=WORDS, param_init=llama3._output_linear_init(DIM)),
}
SHAPE = {"n_layers": 1, "dim": DIM, "n_heads": HEADS, "n_kv_heads": GROUPS, "attn_backend": "flex"}


def llama():
    rope = ComplexRoPE.Config(dim=DIM // HEADS, max_seq_len=64, theta=10000, scaling="none")
    return llama3.Llama3Model.Config(**PARTS, layers=llama3._build_llama3_layers(fuse_qkv=True, hidden_dim=24, rope=rope, **SHAPE))


def qwen(layers, tied, **sizes):
    rope = CosSinRoPE.Config(dim=HEAD, max_seq_len=64, theta=10000)
    return qwen3.Qwen3Model.Config(**PARTS, enable_weight_tying=tied, layers=layers(fuse_qkv=False, head_dim=HEAD, rope=rope, **SHAPE, **sizes))


def config(model_type, architecture, **more):
    return {"architectures": [architecture], "model_type": model_type, **SIZES, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
            "torch_dtype": "float32", "num_hidden_layers": 1, **more}


class State:
    def __init__(self, **state):
        self.state = state

    def state_dict(self):
        return self.state


def fused(state):
    """As no hook parts the projection on saving, and as experts were called for a while."""
    for key in [key for key in state if key.endswith(".wq.weight")]:
        parts = [state.pop(key.replace(".wq.", f".w{one}.")).full_tensor().reshape(GROUPS, -1, HEAD, DIM) for one in "qkv"]
        state[key.replace(".wq.", ".wqkv.")] = torch.cat(parts, dim=1).reshape(-1, DIM)
    return {key.replace(".routed_experts.inner_experts.", ".experts."): value for key, value in state.items()}


def save(name, what, model_config, adapter, hf, is_last):
    source = os.path.join(OUT, name, "source")
    if dist.get_rank() == 0:
        shutil.rmtree(source, ignore_errors=True)
    dist.barrier()
    torch.manual_seed(5)
    model = model_config.build()
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = default_adamw(lr=1e-2)
    optimizer.implementation = "foreach"
    optimizers = optimizer.build(model_parts=[model])
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizers.step()
    manager = CheckpointManager.Config(enable=True, interval=1, keep_latest_k=0).build(
        dataloader=None, model_parts=[model], optimizers=optimizers, lr_schedulers=State(last_epoch=10),
        states={"train_state": State(step=torch.tensor(10), ntokens_seen=torch.tensor(320))}, sd_adapter=None, base_folder=source)
    manager.save(10, last_step=is_last)
    if name != "torchtitan_qwen3":
        dcp.save(fused(dict(model.named_parameters())), checkpoint_id=os.path.join(OUT, name, "fused/step-10"))
    write_case(name, what, hf, {key: value.contiguous() for key, value in adapter(model_config, None).to_hf(whole(model)).items()}, ["torchtitan"])


dist.init_process_group("gloo")
save("torchtitan_llama3", "a step of training, with fused query, key and value", llama(), llama3.Llama3StateDictAdapter,
     config("llama", "LlamaForCausalLM"), False)
save("torchtitan_qwen3", "the last step, model only; tied", qwen(qwen3._build_qwen3_layers, True, hidden_dim=24), qwen3.Qwen3StateDictAdapter,
     config("qwen3", "Qwen3ForCausalLM", head_dim=HEAD, tie_word_embeddings=True), True)
save("torchtitan_qwen3_moe", "the last step, model only", qwen(qwen3._build_qwen3_moe_layers, False, moe_hidden_dim=12, num_experts=4, top_k=2, moe_comm_backend="standard"),
     qwen3.Qwen3StateDictAdapter,
     config("qwen3_moe", "Qwen3MoeForCausalLM", head_dim=HEAD, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, decoder_sparse_step=1,
            mlp_only_layers=[]), True)
