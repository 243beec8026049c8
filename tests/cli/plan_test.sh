#!/usr/bin/env bash
# What plan tells is what merge does: of every checkpoint the same plan, or the same refusal.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data="$TESTS/data"
n_planned=0
n_refused=0

# agree NAME RANKS OPTIONS...: plan and merge with so many ranks end with the same code; what they planned has the same hash, strategy and
# ledger, and merge has warned of all that plan warns of.
agree() {
    local name="$1" ranks="$2" launcher=() planned=0 merged=0
    shift 2
    ((ranks == 1)) || launcher=(mpirun -n "$ranks")
    rm -rf "$WORK/model" "$WORK/report.json"
    timeout 60 "$SHARDWELD" plan "$@" --ranks "$ranks" --json -q >"$WORK/plan.json" 2>"$WORK/err" || planned=$?
    timeout 60 "${launcher[@]}" "$SHARDWELD" merge "$@" --target_dir "$WORK/model" --report "$WORK/report.json" -q 2>"$WORK/err" || merged=$?
    checks=$((checks + 1))
    if ((planned != merged)); then
        fail "$name, $ranks ranks: plan ends with $planned, merge with $merged: $(head -c 600 "$WORK/err")"
    elif ((planned == 0)); then
        n_planned=$((n_planned + 1))
        python3 - "$WORK/plan.json" "$WORK/report.json" <<'P' || fail "$name, $ranks ranks: plan and merge disagree"
import json, sys
plan, report = (json.load(open(path)) for path in sys.argv[1:])
for field in ("hash", "strategy"):
    assert plan[field] == report["plan"][field], (field, plan[field], report["plan"][field])
assert plan["ledger"] == report["ledger"]
assert report["warnings"][:len(plan["warnings"])] == plan["warnings"], (plan["warnings"], report["warnings"])
P
    else
        n_refused=$((n_refused + 1))
    fi
}

# options_of CASE-DIR: where its checkpoint and its config are.
options_of() {
    echo --local_dir "$1/source"
    [[ -n "$(find "$1/source" -type d -name huggingface -print -quit)" || ! -d "$1/hf" ]] || echo --hf_config "$1/hf"
}

for source in "$data"/{megatron,megatron_more,torch}/*/source; do
    dir="$(dirname "$source")"
    # shellcheck disable=SC2046
    agree "$(basename "$dir")" 1 $(options_of "$dir")
done
for dir in "$data"/hf/*/; do
    agree "$(basename "$dir")" 1 --local_dir "$dir" --backend hf
done
checks=$((checks + 1))
((n_planned > 60 && n_refused < 5)) || fail "only $n_planned checkpoints were planned, $n_refused were refused"

# shellcheck disable=SC2046
for case in megatron/llama-tp4-legacy-bf16 megatron/qwen2-tied-tp2-zarr megatron_more/qwen2-tied-pp2-legacy torch/fsdp2_w4_bf16_qwen2_tied; do
    agree "$(basename "$case")" 3 $(options_of "$data/$case")
done
agree "an adapter folded" 3 --local_dir "$data/torch/fsdp2_lora_w2_fp32_qwen2/source" --lora fold
agree "a base to compare with" 1 --local_dir "$data/torch/fsdp2_w4_bf16_qwen2_tied/source" --base "$data/torch/fsdp2_w4_bf16_qwen2_tied/expected"

# A head that the config ties and the checkpoint does not: found before anything is planned, so both write it.
cp -r "$data/torch/plain_w1_bf16_phi3" "$WORK/untied"
config="$(find "$WORK/untied/source" -name config.json)"
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' "$config"
for ranks in 1 3; do
    agree "a head that differs" "$ranks" --local_dir "$WORK/untied/source"
    checks=$((checks + 1))
    grep -q '"tied_differs"' "$WORK/plan.json" || fail "plan takes a head that differs for a tied one"
done
finish
