#!/usr/bin/env python3
"""Makes lora_experts_*: LoRA of the parameters that hold all experts, by peft (target_parameters) on transformers 5.

    lora_experts.py DIRECTORY

Each case has source/base (the model as save_pretrained writes it), source/adapter (PEFT's directory) and expected/merged
(merge_and_unload). Made with peft 0.21.2, transformers 5.24 and torch 2.15.
"""
import pathlib
import sys

import torch
import transformers
from peft import LoraConfig, get_peft_model

COMMON = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=8, vocab_size=32,
              max_position_embeddings=64, num_experts_per_tok=2)
PARAMETERS = dict(target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"], task_type="CAUSAL_LM")
CASES = {
    "qwen3moe": (transformers.Qwen3MoeConfig(**COMMON, intermediate_size=24, moe_intermediate_size=16, num_experts=3,
                                             decoder_sparse_step=1, mlp_only_layers=[]),
                 LoraConfig(r=2, lora_alpha=5, target_modules=["q_proj"], rank_pattern={"experts.down_proj": 3},
                            alpha_pattern={"experts.down_proj": 4}, **PARAMETERS)),
    "gptoss": (transformers.GptOssConfig(**COMMON, intermediate_size=12, num_local_experts=3, layer_types=["full_attention"]),
               LoraConfig(r=2, lora_alpha=5, target_modules=[], use_rslora=True, **PARAMETERS)),
}


def fill(parameters, scale):
    generator = torch.Generator().manual_seed(1)
    for _, parameter in sorted(parameters):
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)


def main():
    for name, (config, lora) in CASES.items():
        case = pathlib.Path(sys.argv[1]) / f"lora_experts_{name}"
        model = transformers.AutoModelForCausalLM.from_config(config).float()
        fill(model.named_parameters(), 0.05)
        model.save_pretrained(case / "source" / "base")
        model = get_peft_model(model, lora)
        fill(((n, p) for n, p in model.named_parameters() if p.requires_grad), 0.2)
        model.save_pretrained(case / "source" / "adapter")
        model.merge_and_unload().save_pretrained(case / "expected" / "merged")


if __name__ == "__main__":
    main()
