#!/usr/bin/env bash
# What Megatron saves beside the weights since core 0.19: args among the shards (common_state), the tokenizer, SHA-256 sums of all files
# (integrity.json); and what Megatron-Bridge states in run_config.yaml.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case="$TESTS/data/megatron/qwen2-tied-pp2-vpp2-core019-torchdist-bf16"
step=iter_0000010

# copied NAME: a copy of the checkpoint, $copy, whose files may be changed
copied() {
    copy="$WORK/$1"
    cp -r "$case/source" "$copy"
}
edit() { python3 "$TESTS/support/edit_object.py" "$copy/$step/__0_0.distcp" "$@" || fail "cannot edit $*"; }
# sums: integrity.json as Megatron writes it
sums() {
    python3 - "$copy/$step" <<'PYTHON'
import hashlib, json, os, sys
folder = sys.argv[1]
files = {name: hashlib.sha256(open(os.path.join(folder, name), "rb").read()).hexdigest()
         for name in sorted(os.listdir(folder)) if os.path.isfile(os.path.join(folder, name))}
json.dump({"algorithm": "sha256", "files": files}, open(os.path.join(folder, "integrity.json"), "w"), indent=2)
PYTHON
}
# merge CODE [RANKS] [options]
merge() {
    local code="$1" ranks="$2" launcher=()
    shift 2
    rm -rf "$WORK/merged"
    ((ranks == 0)) || launcher=(mpirun -n "$ranks")
    expect_code "$code" "${launcher[@]}" "$SHARDWELD" merge --local_dir "$copy" --target_dir "$WORK/merged" --hf_config "$case/hf" --no_fsync -v "$@"
}
field() { python3 -c 'import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2:]:
    value = value[key]
print(value)' "$@"; }
same() { [[ "$1" == "$2" ]] || fail "$3: $1, expected $2"; }

# args are read from common_state: parallel sizes, iteration, contradictions of config.json.
copied plain
expect_code 0 "$SHARDWELD" inspect --local_dir "$copy" --json
cp "$WORK/out" "$WORK/inspect.json"
same "$(field "$WORK/inspect.json" facts pp) $(field "$WORK/inspect.json" facts vpp) $(field "$WORK/inspect.json" facts iteration)" "2 2 10" facts
same "$(field "$WORK/inspect.json" claims num_layers)" 4 num_layers
copied layers && edit num_layers 5
merge 6 0 --check_crc off
expect_text "this config.json is another model's: num_hidden_layers 4, the checkpoint's args say num_layers 5"
copied rotary && edit rotary_interleaved true
merge 5 3 --check_crc off
expect_text "its args say rotary_interleaved true"
expect_absent "$WORK/merged"

# A changed byte of it shows, as one of a weight does.
merge 4 0
expect_text "common_state in __0_0.distcp"

# common.pt goes before it; the two may not contradict each other.
copied both
python3 - "$TESTS" "$copy/$step/common.pt" <<'PYTHON'
import argparse, io, sys
sys.path.insert(0, sys.argv[1] + "/support")
import damage
out = io.BytesIO()
damage.Writer(out, 2).dump({"args": argparse.Namespace(num_layers=6), "iteration": 10})
damage.write_records(sys.argv[2], {"archive/data.pkl": out.getvalue(), "archive/version": b"3\n"})
PYTHON
merge 6 0
expect_text "in common_state but"

# The tokenizer comes along, unless the run says that it is none of HuggingFace's.
copied plain2
merge 0 0 --report "$WORK/report.json"
same "$(cat "$WORK/merged/tokenizer.json" "$WORK/merged/tokenizer_config.json" | sha256sum)" \
    "$(cat "$copy/$step/tokenizer/tokenizer.json" "$copy/$step/tokenizer/tokenizer_config.json" | sha256sum)" tokenizer
expect_absent "$WORK/merged/tokenizer"
same "$(field "$WORK/report.json" warnings)" "[]" warnings
rm "$copy/$step/tokenizer/tokenizer_config.json"  # as a TikTokenizer's renamed file
merge 0 0
expect_text "there is no tokenizer beside"
expect_absent "$WORK/merged/tokenizer.json"

# A TikTokenizer's file has a HuggingFace tokenizer's name, but another content: the run says which it was.
copied tiktoken && printf 'tokenizer:\n  tokenizer_type: TikTokenizer\n' >"$copy/$step/run_config.yaml"
merge 0 3
expect_text "there is no tokenizer beside"
expect_absent "$WORK/merged/tokenizer.json"

# Sums that the save lists: all files, at any number of ranks; what they prove; what they find.
copied sums && sums
for ranks in 0 3; do
    merge 0 "$ranks" --report "$WORK/report.json"
    expect_text "the SHA-256 of 6 files"
    same "$(field "$WORK/report.json" provenance standing)" proved provenance
done
expect_code 0 "$SHARDWELD" inspect --local_dir "$copy"
grep -q "the SHA-256 of 2 files .* those of 4 others are not checked here" "$WORK/out" || fail "no sums in: $(cat "$WORK/out")"
printf '\x5a' | dd of="$copy/$step/__2_0.distcp" bs=1 seek=1 conv=notrunc 2>/dev/null
merge 4 3
expect_text "1 of 6 files have not the SHA-256 that the save lists for them: __2_0.distcp"
expect_absent "$WORK/merged"
copied meta && sums && printf ' ' >>"$copy/$step/metadata.json"
expect_code 4 "$SHARDWELD" inspect --local_dir "$copy"
expect_text "metadata.json"
merge 0 0 --check_crc off
expect_text "is not checked (--check_crc off)"
copied lost && cp "$copy/$step/metadata.json" "$copy/$step/extra.json" && sums && rm "$copy/$step/extra.json"
merge 3 0
expect_text "extra.json"
copied torn && sums && truncate -s 100 "$copy/$step/integrity.json"
merge 4 0
expect_text "integrity.json"

# What Megatron-Bridge states; and what nothing states is said.
bridge="$TESTS/data/megatron/verl-qwen3-tp2-pp2-torchdist-bf16/source"
config="$(dirname "$(find "$bridge" -name config.json)")"
shards="$(dirname "$(find "$bridge" -name .metadata)")"
copy="$WORK/bridge" && mkdir "$copy" && cp -r "$shards/." "$copy"
bridge_merge() {
    rm -rf "$WORK/merged"
    expect_code "$1" "$SHARDWELD" merge --local_dir "$copy" --target_dir "$WORK/merged" --hf_config "$config" --no_fsync -v "${@:2}"
}
bridge_merge 0
expect_text "nothing states the run's arguments"
printf 'model:\n  num_attention_heads: 8\n  rotary_base: 10000.0\n' >"$copy/run_config.yaml"
bridge_merge 0
! grep -q "nothing states" "$WORK/err" || fail "run_config.yaml is not read"
printf 'model:\n  rotary_interleaved: true\n' >"$copy/run_config.yaml"
bridge_merge 5
expect_text "rotary_interleaved true"
printf 'model:\n  layernorm_zero_centered_gamma: true\n' >"$copy/run_config.yaml"
bridge_merge 5
expect_text "layernorm_zero_centered_gamma true"
printf 'model:\n  rotary_base: 5000\n' >"$copy/run_config.yaml"
bridge_merge 6
expect_text "rotary_base 5000"
printf 'model:\n  moe_mlp_glu_interleave_size: 32\n' >"$copy/run_config.yaml"
bridge_merge 5
expect_text "moe_mlp_glu_interleave_size"

# What the run states in a form that cannot be compared is said; --strict refuses it.
printf 'model:\n  rotary_base: *shared\n' >"$copy/run_config.yaml"
bridge_merge 0
expect_text "rotary_base is '*shared': not compared with"
bridge_merge 14 --strict

# NeMo 2 keeps it beside the directory of the shards.
rm "$copy/run_config.yaml" && mkdir -p "$WORK/nemo/context" && mv "$copy" "$WORK/nemo/weights" && copy="$WORK/nemo"
printf '_target_: some.Model\nconfig:\n  rotary_interleaved: true\n' >"$copy/context/model.yaml"
bridge_merge 5
expect_text "rotary_interleaved true"
finish
