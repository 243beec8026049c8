#!/usr/bin/env bash
# --layout_like with references that transformers wrote: what is merged from a training checkpoint of the same weights is the same files,
# and transformers loads what differs. Needs a Python with torch and transformers: $SHARDWELD_PYTHON, else python3.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HF_HUB_OFFLINE=1
python_with transformers torch transformers

cat >"$WORK/save.py" <<'P'
import sys
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

kind, out = sys.argv[1:]
torch.manual_seed(3)
sizes = dict(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2)
if kind == "moe":
    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes, moe_intermediate_size=32, head_dim=16, num_experts=4, num_experts_per_tok=2))
else:
    model = LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=kind == "tied"))
model.to(torch.bfloat16).save_pretrained(out, max_shard_size="100KB")
P
cat >"$WORK/load.py" <<'P'
import sys
import torch
from transformers import AutoModelForCausalLM

a, b = (AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).state_dict() for path in sys.argv[1:])
assert a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
P

for kind in plain tied moe; do
    "$python" "$WORK/save.py" "$kind" "$WORK/$kind" 2>"$WORK/err" || fail "cannot save $kind: $(tail -1 "$WORK/err")"
    (($(ls "$WORK/$kind"/*.safetensors | wc -l) > 2)) || fail "$kind is not of several files"
    for form in fsdp:world=2 torch_dist; do
        rm -rf "$WORK/trained" "$WORK/merged"
        expect_code 0 "$SHARDWELD" reshape "$WORK/$kind" "$WORK/trained" --to "$form" --no_fsync -q
        expect_code 0 mpirun -n 2 "$SHARDWELD" merge "$WORK/trained" "$WORK/merged" --hf_config "$WORK/$kind" --layout_like "$WORK/$kind" --no_card --no_fsync
        diff -rq -x shardweld_report.json "$WORK/$kind" "$WORK/merged" >"$WORK/diff" || fail "$kind of $form: $(head -3 "$WORK/diff")"
    done
done

# A reference that lacks a file's tensors: they lie in a file of their own, which transformers finds.
python3 "$TESTS/support/rewrite_model.py" "$WORK/plain" "$WORK/less" "drop=lm_head.weight" "drop=model.layers.1.mlp.up_proj.weight" || fail "cannot write a reference"
expect_code 0 "$SHARDWELD" merge "$WORK/plain" "$WORK/more" --layout_like "$WORK/less" --no_fsync
[[ -s "$WORK/more/model-extra.safetensors" ]] || fail "no file of what the reference lacks"
"$python" "$WORK/load.py" "$WORK/plain" "$WORK/more" 2>"$WORK/err" || fail "transformers loads another model: $(tail -1 "$WORK/err")"
finish
