#!/usr/bin/env bash
# What plan tells is what merge does: of every checkpoint the same plan, or the same refusal.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data="$TESTS/data"

# agree NAME RANKS OPTIONS...: plan and merge with so many ranks end with the same code; what they planned lies in $WORK/NAME.RANKS.*.
agree() {
    local found="$WORK/$1.$2" ranks="$2" launcher=() planned=0 merged=0
    shift 2
    ((ranks == 1)) || launcher=(mpirun -n "$ranks")
    timeout 180 "$SHARDWELD" plan "$@" --ranks "$ranks" --json -q >"$found.plan" 2>"$found.err" || planned=$?
    timeout 180 "${launcher[@]}" "$SHARDWELD" merge "$@" --target_dir "$found.model" --report "$found.report" -q --no_fsync 2>"$found.err" || merged=$?
    ((planned == merged)) || fail "$found: plan ends with $planned, merge with $merged: $(head -c 600 "$found.err")"
    rm -rf "$found.model"
}

# agree_beside ARGUMENTS...: the same beside others, four at a time: most of a case is waiting for processes to begin and to end.
agree_beside() {
    agree "$@" >>"$WORK/said" &
    while (($(jobs -rp | wc -l) >= 4)); do wait -n; done
}

# options_of CASE-DIR: where its checkpoint and its config are.
options_of() {
    echo --local_dir "$1/source"
    [[ "$1" != */hdf5/* ]] || echo --backend hdf5
    [[ -n "$(find "$1/source" -type d -name huggingface -print -quit)" || ! -d "$1/hf" ]] || echo --hf_config "$1/hf"
}

# shellcheck disable=SC2046
for source in "$data"/*/*/source; do
    dir="$(dirname "$source")"
    agree_beside "$(basename "$(dirname "$dir")")-$(basename "$dir")" 1 $(options_of "$dir")
done
for dir in "$data"/hf/*/; do
    agree_beside "$(basename "$dir")" 1 --local_dir "$dir" --backend hf
done
wait
[[ ! -s "$WORK/said" ]] || fail "$(<"$WORK/said")"
# shellcheck disable=SC2046
for name in megatron/llama-tp4-legacy-bf16 megatron_more/qwen2-tied-pp2-legacy torch/fsdp2_w4_bf16_qwen2_tied; do
    agree "$(basename "$name")" 3 $(options_of "$data/$name")
done
agree folded 3 --local_dir "$data/torch/fsdp2_lora_w2_fp32_qwen2/source" --lora fold
# shellcheck disable=SC2046
agree based 1 $(options_of "$data/megatron/llama-tp4-legacy-bf16") --base "$data/megatron/llama-tp4-legacy-bf16/expected"

# A head that the config ties and the checkpoint does not: found before anything is planned, so both write it.
cp -r "$data/torch/plain_w1_bf16_phi3" "$WORK/phi3"
sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' "$WORK/phi3/source/huggingface/config.json"
agree untied 1 --local_dir "$WORK/phi3/source"
agree untied 3 --local_dir "$WORK/phi3/source"

# Where both went through, they planned the same: files and copies, the strategy, the ledger; and merge has warned of all that plan warns of.
python3 - "$WORK" <<'P' || fail "plan and merge disagree"
import json, pathlib, sys
n_planned = 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.plan")):
    report = json.loads(path.with_suffix(".report").read_text())
    if report["exit"]["code"] != 0:
        continue
    n_planned += 1
    plan = json.loads(path.read_text())
    for field in ("hash", "strategy"):
        assert plan[field] == report["plan"][field], (path.name, field, plan[field], report["plan"][field])
    assert plan["ledger"] == report["ledger"], path.name
    warnings = plan["warnings"]
    assert warnings == report["warnings"][:len(warnings)], (path.name, warnings, report["warnings"])
    assert not path.name.startswith("untied") or any(warning["code"] == "tied_differs" for warning in warnings), path.name
assert n_planned > 100, n_planned
P
# The reads of metadata that a plan states are those that are made; a few more find the checkpoint.
dist="$TESTS/data/megatron/qwen2-tp2-pp2-torchdist-bf16"
if faults_at "$dist/source" "$WORK/none"; then
    expect_code 0 "${faulty[@]}" call=read,side=input,times=0,do=slow:0 "$SHARDWELD" plan --local_dir "$dist/source" --hf_config "$dist/hf" --json
    python3 - "$WORK/out" "$WORK"/counts/struck.0 <<'P' || fail "reads of metadata"
import json, sys
stated = json.load(open(sys.argv[1]))["metadata_reads"]
made = sum("\tread\t" in line for line in open(sys.argv[2]))
assert 0 < stated <= made <= stated + 8, (stated, made)
P
fi

finish
