#!/usr/bin/env bash
# States of Megatron's optimizers that name no parameters (--state): buckets of torch_dist, distrib_optim.pt and numbered states of legacy files.
# The neutral form has the bits that torch.optim.AdamW made, at one rank and at three; from each form of one run the same checkpoint is written;
# and what does not fit is refused.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data="$TESTS/data/megatron_states"
step=iter_0000003

# reshape CODE RANKS SOURCE FORM [options]: into $WORK/out-FORM
reshape() {
    local launcher=()
    (($2 == 1)) || launcher=(mpirun -n "$2")
    rm -rf "$WORK/out-$4"
    expect_code "$1" "${launcher[@]}" "$SHARDWELD" reshape "$3" "$WORK/out-$4" --to "$4" --hf_config "$hf" --no_fsync "${@:5}"
}
same_bits() {
    python3 "$TESTS/support/compare_safetensors.py" "$1" "$2" >"$WORK/diff" 2>&1 || fail "$1: $(head -3 "$WORK/diff")"
}
same_tree() {
    diff -r -x shardweld_report.json -x optimizer.json -x common.pt "$1" "$2" >"$WORK/diff" 2>&1 || fail "$1 and $2 differ: $(head -3 "$WORK/diff")"
}

for dir in "$data"/*; do
    hf="$dir/hf"
    for ranks in 1 3; do
        reshape 0 "$ranks" "$dir/source" hf --state all || continue
        for state in param exp_avg exp_avg_sq; do
            same_bits "$WORK/out-hf/optimizer/$state.safetensors" "$dir/expected/$state.json"
        done
        mkdir "$WORK/model" && mv "$WORK/out-hf/model.safetensors" "$WORK/model"
        same_bits "$WORK/model/model.safetensors" "$dir/expected/model.json"
        rm -r "$WORK/model"
        grep -q '"step": 3.0' "$WORK/out-hf/optimizer/optimizer.json" || fail "no step of $dir"
        grep -q '"read_from": "' "$WORK/out-hf/optimizer/optimizer.json" || fail "no form of $dir"
    done
done

# Two forms of one run make one checkpoint, and masters alone are taken too.
for run in qwen2-tied-pp2-vpp2-dp2 qwen3moe-tp2-ep2; do
    hf="$data/$run-dp/hf"
    reshape 0 1 "$data/$run-legacy/source" torch_dist --state all && mv "$WORK/out-torch_dist" "$WORK/of-legacy"
    reshape 0 3 "$data/$run-dp/source" torch_dist --state all
    same_tree "$WORK/out-torch_dist" "$WORK/of-legacy"
    rm -rf "$WORK/of-legacy"
    reshape 0 1 "$data/$run-legacy/source" hf --state master
    same_bits "$WORK/out-hf/optimizer/param.safetensors" "$data/$run-dp/expected/param.json"
    expect_absent "$WORK/out-hf/optimizer/exp_avg.safetensors"
done

# copied CASE: a copy of its source, $copy, whose files may be changed
copied() {
    copy="$WORK/copy"
    hf="$data/$1/hf"
    rm -rf "$copy"
    cp -r "$data/$1/source" "$copy"
}
damage() { python3 "$TESTS/support/damage.py" "$@" || fail "cannot damage: $*"; }
# edit FILE CODE: changes the pickled value `root`
edit() {
    python3 - "$TESTS" "$@" <<'PYTHON' || fail "cannot edit $1"
import sys
sys.path.insert(0, sys.argv[1] + "/support")
import damage
damage.change(sys.argv[2], lambda root: exec(sys.argv[3], {"root": root, "damage": damage}))
PYTHON
}
# refused CODE TEXT: with states; the weights alone are taken
refused() {
    reshape "$1" 1 "$copy" hf --state all && expect_text "$2" && expect_text "--state weights"
    expect_absent "$WORK/out-hf"
    reshape 0 1 "$copy" hf
}

dp=qwen3moe-tp2-ep2-dp
legacy=qwen3moe-tp2-ep2-legacy
numbered=qwen2-tied-tp2-pp2-numbered-legacy
bucket="dtype_(torch.bfloat16, torch.float32).bucket_idx_0"

# Another order of modules: chunks end elsewhere, or masters do not round to their weights.
copied $dp && python3 "$TESTS/support/edit_object.py" "$copy/$step/__0_0.distcp" moe_grouped_gemm false
reshape 6 1 "$copy" hf --state all --check_crc off && expect_text "have other borders than the parameters: layer 0's decoder.layers.mlp.experts"
expect_absent "$WORK/out-hf"
reshape 6 3 "$copy" hf --state all --check_crc off
copied $dp && for names in q_layernorm:other k_layernorm:q_layernorm other:k_layernorm; do
    damage dcp_rename "$copy/$step/.metadata" "\\b${names%:*}\\b" "${names#*:}"
done
refused 6 "the save does not name what its states belong to"
copied $dp && damage dcp_rename "$copy/$step/.metadata" q_layernorm linear_qkv_gate
reshape 5 1 "$copy" hf --state all && expect_text "where decoder.layers.self_attention.linear_qkv_gate.weight stands among them is not known"
# Other states, other forms, and buckets that are not all there.
copied $dp && damage dcp_rename "$copy/$step/.metadata" 'exp_avg_sq$' momentum_buffer
refused 5 "the optimizer keeps momentum_buffer (chained_0.optimizer.distributed"
copied $dp && damage dcp_rename "$copy/$step/.metadata" 'dp_group_idx_0.per_bucket_numel/' dp_group_idx_0.param_state/
refused 5 "kept as one object for each group of ranks"
copied $dp && damage dcp_drop "$copy/$step/.metadata" "chained_1.optimizer.distributed.dp_group_idx_1.gbuf_idx_0.$bucket.param"
refused 6 "are not the same in all states"
copied $dp && damage dcp_drop "$copy/$step/.metadata" "chained_1.optimizer.distributed.dp_group_idx_1.gbuf_idx_0.$bucket.exp_avg"
refused 6 "are those of ep 1, but args give 2"

# Legacy files: one is missing, of another rank, at another step, with other settings, of other parameters.
copied $legacy && rm "$copy/$step/mp_rank_01_001/distrib_optim.pt"
refused 3 "mp_rank_01_001/distrib_optim.pt is not there"
copied $legacy && edit "$copy/$step/mp_rank_01_001/model_optim_rng.pt" 'root["optimizer"][0]["optimizer"]["param_groups"][0]["lr"] = 0.5'
refused 6 "lr is 0.01 in"
copied $legacy && for rank in 00_000 01_001; do
    edit "$copy/$step/mp_rank_$rank/model_optim_rng.pt" 'root["optimizer"][1]["optimizer"]["param_groups"][0]["step"] = 4.0'
done
refused 6 "but at step 4 in"
copied $legacy && edit "$copy/$step/mp_rank_00_000/distrib_optim.pt" 'root[0].pop("buckets_coalesced")'
refused 5 "not kept with buckets_coalesced"
copied $legacy && edit "$copy/$step/mp_rank_00_000/distrib_optim.pt" 'root.pop(1)'
refused 3 "the optimizer's param of decoder.layers.0.mlp.experts.linear_fc1.weight0"
copied $legacy && edit "$copy/$step/mp_rank_00_000/distrib_optim.pt" 'b = root[0][0]; s = next(iter(b.values())); s["max_exp_avg_sq"] = s["exp_avg"]'
refused 5 "the optimizer keeps max_exp_avg_sq"
copied qwen2-tied-pp2-vpp2-dp2-legacy && cp "$copy/$step/mp_rank_00_001/distrib_optim.pt" "$copy/$step/mp_rank_00_000/distrib_optim.pt"
refused 6 "do not fit the rank's model: they have"
copied $numbered && edit "$copy/$step/mp_rank_00_000/model_optim_rng.pt" 'root["optimizer"]["fp32_from_fp16_params"][0].pop()'
refused 6 "parameters in group 0, its model"

# What is left aside is not what is read.
copied $legacy
reshape 0 1 "$copy" hf -v && expect_text "left aside beside the model in each rank directory: distrib_optim.pt"
reshape 0 1 "$copy" hf -v --state all && ! grep -q "left aside beside" "$WORK/err" || fail "distrib_optim.pt was read"
expect_text "distrib_optim.pt tells no iteration"

finish
