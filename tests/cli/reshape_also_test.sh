#!/usr/bin/env bash
# --also and training checkpoints: beside a model, beside each other and with models beside one, each output has the bytes of a run of its own at
# one rank and at three with either strategy, is what its report says, and goes on after a kill; averages and differences become training
# checkpoints.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/resume_lib.sh"
megatron="$TESTS/data/megatron"

# same DIR DIR
same() {
    diff -r -x shardweld_report.json "$1" "$2" >"$WORK/diff" 2>&1 || fail "$1 and $2 differ: $(head -3 "$WORK/diff")"
}

# together CASE FIRST-FORM FORM...: all forms in one run; hf is a model. Each as alone.
together() {
    local dir="$1" first="$2" forms=("${@:3}") also=() form
    rm -rf "$WORK"/{alone,out}-*
    for form in "$first" "${forms[@]}"; do
        local options=(--to hf)
        case "$form" in
        hf) ;;
        bf16 | fp32) options+=(--dtype "$form") ;;
        fp8-block | gguf:*) options+=(--quantize "$form") ;;
        *) options=(--to "$form") ;;
        esac
        expect_code 0 "$SHARDWELD" reshape "$dir/source" "$WORK/alone-$form" --hf_config "$WORK/config" "${options[@]}" -q --no_fsync
    done
    for form in "${forms[@]}"; do also+=(--also "$WORK/out-$form:$form"); done
    for way in "1 direct" "3 direct" "3 collective"; do
        read -r ranks strategy <<<"$way"
        rm -rf "$WORK"/out-*
        expect_code 0 mpirun -n "$ranks" "$SHARDWELD" reshape "$dir/source" "$WORK/out-$first" --to "$first" --hf_config "$WORK/config" -q --no_fsync \
            --strategy "$strategy" "${also[@]}" || continue
        for form in "$first" "${forms[@]}"; do
            same "$WORK/out-$form" "$WORK/alone-$form"
            expect_code 0 "$SHARDWELD" verify "$WORK/out-$form" -q
        done
    done
}

qwen="$megatron/qwen2-tp2-pp2-torchdist-bf16"
cp -r "$qwen/hf" "$WORK/config"
together "$qwen" hf torch_dist legacy:tp=2,pp=2 fp32 fsdp:world=3,ddp=3
together "$qwen" legacy:tp=4 hf fsdp:world=5 fp32 dcp:world=2
rm -rf "$WORK/config" && cp -r "$megatron/mixtral-ep2-pp2-legacy-bf16/hf" "$WORK/config"
together "$megatron/mixtral-ep2-pp2-legacy-bf16" torch_dist legacy:tp=2,ep=2 hf gguf:q8_0

# What is said of each, and what is refused.
cp -r "$qwen/hf" "$WORK/hf"
one=("$SHARDWELD" merge "$qwen/source" "$WORK/told" --hf_config "$WORK/hf" --no_fsync)
expect_code 0 "${one[@]}" --also "$WORK/told-ckpt:legacy:tp=2"
expect_text "$WORK/told-ckpt (legacy:tp=2) in" && expect_text "59 of 59 input checksums match"
expect_code 0 "${one[@]}" --also "$WORK/told-ckpt:legacy:tp=2" --if_complete verify -q
rm -rf "$WORK"/told*
# refused CODE TEXT OPTION...
refused() {
    expect_code "$1" "${one[@]}" -q "${@:3}" && expect_text "$2"
    expect_absent "$WORK/told"
}
refused 2 "legacy takes" --also "$WORK/other:legacy:no=2"
refused 2 "is not DIR or DIR:FORM" --also "$WORK/other:no_form"
refused 2 "is the same as another output" --also "$WORK/other:torch_dist" --also "$WORK/more:torch_dist"
refused 2 "is the same as another output" --also "$WORK/other:hf"
refused 2 "--include is not for training checkpoints" --also "$WORK/other:torch_dist" --include layers
refused 6 "num_attention_heads" --also "$WORK/other:legacy:tp=3"
refused 2 "the first model of several is no GGUF file" --to torch_dist --also "$WORK/other:gguf:q8_0" --also "$WORK/more"
refused 12 "lie in each other" --also "$WORK/told/inner:torch_dist"
expect_code 5 "$SHARDWELD" merge "$TESTS/data/torch/fsdp2_lora_w2_fp32_qwen2/source" "$WORK/told" --also "$WORK/other:dcp" -q && expect_text "no place for the LoRA adapter"

# Averages and differences: as the average that is written as a model, and then reshaped.
other="$WORK/other-model"
expect_code 0 "$SHARDWELD" merge "$qwen/source" "$WORK/one-model" --hf_config "$WORK/hf" -q --no_fsync
cp -r "$WORK/one-model" "$other"
rm "$other/shardweld_report.json"
py "$other/model.safetensors" <<'PYTHON'
import sys
import edit_safetensors as files
files.write(sys.argv[1], {name: [dtype, shape, bytes((byte + 1) % 64 if at % 2 else byte for at, byte in enumerate(data))]
                          for name, (dtype, shape, data) in files.read(sys.argv[1]).items()})
PYTHON
# averaged NAME OPTION... : of both
averaged() {
    local name="$1" mix=("${@:2}")
    expect_code 0 "$SHARDWELD" merge "${mix[@]}" "$WORK/$name" -q --no_fsync
    for form in torch_dist legacy:tp=2,pp=2 fsdp:world=3 dcp:world=2; do
        expect_code 0 "$SHARDWELD" reshape "$WORK/$name" "$WORK/$name-later-$form" --to "$form" -q --no_fsync
        expect_code 0 mpirun -n 3 "$SHARDWELD" reshape "${mix[@]}" "$WORK/$name-$form" --to "$form" -q --no_fsync
        diff -r -x shardweld_report.json -x config.json "$WORK/$name-$form" "$WORK/$name-later-$form" >"$WORK/diff" || fail "$name as $form: $(head -3 "$WORK/diff")"
        expect_code 0 "$SHARDWELD" verify "$WORK/$name-$form" -q
    done
}
averaged average --average "$WORK/one-model" "$other"
averaged difference --delta "$WORK/one-model" --scale 0.5 "$other"
expect_code 2 "$SHARDWELD" reshape --average "$WORK/one-model" "$other" "$WORK/none" --to dcp --also "$WORK/more" -q && expect_text "--also and --average exclude each other"

# A killed run: the same command goes on with all outputs.
"$MAKE" --gb 0.1 --tp 2 "$WORK/big" >/dev/null || fail "make_checkpoint"
alone=(merge --local_dir "$WORK/big/source" --hf_config "$WORK/big/hf" -q --no_fsync)
expect_code 0 "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/reference"
expect_code 0 "$SHARDWELD" "${alone[@]}" --target_dir "$WORK/reference-fsdp" --to fsdp:world=3
both=(--also "$WORK/resumed-fsdp:fsdp:world=3")
for output in merged resumed-fsdp; do  # in whose rounds it is killed
    JOURNAL=".$output.shardweld-partial/journal"
    rm -rf "$WORK/merged" "$WORK"/resumed-*
    merge_of big 2 --no_fsync --bw_limit 200MB -q "${both[@]}"
    signalled KILL one 137 40
    merge_of big 3 --no_fsync -q --strategy collective "${both[@]}"
    expect_code 0 "${command[@]}"
    same "$WORK/merged" "$WORK/reference"
    same "$WORK/resumed-fsdp" "$WORK/reference-fsdp"
    expect_code 0 "$SHARDWELD" verify "$WORK/resumed-fsdp" -q
done
finish
