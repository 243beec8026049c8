#!/usr/bin/env bash
# transformers 5.24.0 writes the base of rotary embeddings, their scaling and their share of a head into `rope_parameters` alone. transformers 4.57.6
# reads such a config.json without an error or a warning and takes its own defaults: base 10,000 for Llama 3.1 (500,000, and no llama3 scaling), Mistral
# (1,000,000) and Qwen3 (5,000,000); half of each head for Phi (0.4), a quarter for GPT-NeoX (all). Gemma 3 and GLM 4 come out right, for their values
# happen to be 4.57.6's defaults.
# The guess: that 4.57.6, which knows `rope_scaling`, finds the same facts, or complains.
# Why it matters: weights are the same, names and shapes fit, and the model loads; texts are wrong. Who writes a model for a server that has
# transformers 4 must write the older fields, too.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
environment five transformers==5.24.0
cat >"$work/write.py" <<'P'
import sys, transformers
from transformers import AutoConfig
for kind, fields in {
        "llama": {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                      "original_max_position_embeddings": 8192}, "max_position_embeddings": 131072},
        "mistral": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        "qwen3": {"rope_parameters": {"rope_type": "default", "rope_theta": 5e6}},
        "phi": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.4}},
        "gpt_neox": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}},
        "gemma3_text": {}}.items():
    AutoConfig.for_model(kind, **fields).save_pretrained(f"{sys.argv[1]}/{kind}")
print("written by transformers", transformers.__version__)
P
"$python" "$work/write.py" "$work/configs"
environment four transformers==4.57.6
cat >"$work/read.py" <<'P'
import sys, transformers
from transformers import AutoConfig
print("read by transformers", transformers.__version__)
seen = {}
for kind, names in {"llama": ["rope_theta", "rope_scaling"], "mistral": ["rope_theta"], "qwen3": ["rope_theta"], "phi": ["partial_rotary_factor"],
                    "gpt_neox": ["rotary_pct"], "gemma3_text": ["rope_theta", "rope_local_base_freq"]}.items():
    config = AutoConfig.from_pretrained(f"{sys.argv[1]}/{kind}")
    seen[kind] = [getattr(config, name) for name in names]
    print(f"  {kind}: " + ", ".join(f"{name} {value}" for name, value in zip(names, seen[kind])))
sys.exit(seen != {"llama": [1e4, None], "mistral": [1e4], "qwen3": [1e4], "phi": [0.5], "gpt_neox": [0.25], "gemma3_text": [1e6, 1e4]})
P
"$python" "$work/read.py" "$work/configs"
