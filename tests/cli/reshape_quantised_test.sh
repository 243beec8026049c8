#!/usr/bin/env bash
# reshape of models that are stored as codes and scales: a training checkpoint of bf16 in one step has the bytes of two, a merge with --dtype bf16
# and a reshape of what it wrote.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
quant="$TESTS/data/quant"

# in_one_step CODES VALUES FORM [RANKS STRATEGY]
in_one_step() {
    local launcher=()
    rm -rf "$WORK/once" "$WORK/twice"
    [[ -z "${4:-}" ]] || launcher=(mpirun -n "$4")
    expect_code 0 "$SHARDWELD" reshape "$2" "$WORK/twice" --to "$3" -q --no_fsync || return
    expect_code 0 "${launcher[@]}" "$SHARDWELD" reshape "$1" "$WORK/once" --to "$3" -q --no_fsync ${5:+--strategy "$5"} || return
    same_files "$WORK/once" "$WORK/twice" "$(basename "$1") to $3${4:+ at $4 ranks, $5}"
}

# values_of CODES VALUES: the model in bf16
values_of() {
    expect_code 0 "$SHARDWELD" merge "$1" "$2" --dtype bf16 -q --no_fsync
}

# Whole rows, parts of rows (legacy cuts columns too), rows of tiles that a rank's end cuts (world=3).
for case in llama128/fp8-block llama192/fp8-block llama192/fp8-block-ct llama128/fp8-channel llama128/w8a16 llama128/w4a16-g32 llama192/w4a16-g64 \
    llama128/w4a16-channel llama128/nvfp4a16 llama192/mxfp4 qwen3moe128/fp8-block qwen3moe128/w4a16; do
    codes="$WORK/${case#*/}-${case%/*}" values="$codes.values"
    expect_code 0 "$SHARDWELD" merge --backend hf "$quant/${case%/*}/input" "$codes" --quantize "${case#*/}" -q --no_fsync && values_of "$codes" "$values" || continue
    legacy=legacy:tp=2
    [[ $case != qwen3moe* ]] || legacy=legacy:ep=2 # it has one head
    in_one_step "$codes" "$values" torch_dist
    in_one_step "$codes" "$values" $legacy 3 collective
    in_one_step "$codes" "$values" $legacy 1 direct
    in_one_step "$codes" "$values" fsdp:world=3 3 direct
done
in_one_step "$codes" "$values" torch_dist:layers=separate 2 collective
in_one_step "$codes" "$values" dcp:world=2
in_one_step "$codes" "$values" dcp:world=3 3 collective
expect_code 0 "$SHARDWELD" verify "$WORK/once" -q
# gpt-oss keeps its experts by columns.
values_of "$quant/gptoss/input" "$WORK/gptoss"
for form in torch_dist legacy:tp=2 legacy:tp=2,ep=2,etp=2 fsdp:world=3; do
    in_one_step "$quant/gptoss/input" "$WORK/gptoss" "$form" 3 collective
done
# Beside a model of values, beside another training checkpoint, and like a template of the same type and of another.
codes="$WORK/fp8-block-llama192" values="$codes.values"
expect_code 0 "$SHARDWELD" reshape "$values" "$WORK/apart" --to dcp:world=2 -q --no_fsync
expect_code 0 mpirun -n 2 "$SHARDWELD" merge --backend hf "$codes" "$WORK/model" --dtype bf16 --also "$WORK/beside:dcp:world=2" -q --no_fsync &&
    same_files "$WORK/beside" "$WORK/apart" "beside a model" && same_tensors "$WORK/model" "$values"
rm -rf "$WORK"/{model,beside}
for dtype in bf16 ""; do # a model beside is what a merge writes: it keeps its codes where nothing else is asked for
    kept="$codes"
    [[ -z $dtype ]] || kept="$values"
    expect_code 0 mpirun -n 2 "$SHARDWELD" reshape "$codes" "$WORK/first" --to torch_dist --also "$WORK/beside:dcp:world=2" --also "$WORK/model" \
        ${dtype:+--dtype $dtype} -q --no_fsync &&
        same_files "$WORK/beside" "$WORK/apart" "beside a training checkpoint" && same_tensors "$WORK/model" "$kept" "beside, as ${dtype:-stored}"
    rm -rf "$WORK"/{first,beside,model}
done
for dtype in bf16 fp32; do
    for form in legacy:tp=2 torch_dist fsdp:world=2; do
        rm -rf "$WORK"/{template,like.values,like.codes}
        expect_code 0 "$SHARDWELD" reshape "$values" "$WORK/template" --to $form --dtype $dtype -q --no_fsync
        expect_code 0 "$SHARDWELD" reshape "$values" "$WORK/like.values" --like "$WORK/template" -q --no_fsync
        expect_code 0 mpirun -n 3 "$SHARDWELD" reshape "$codes" "$WORK/like.codes" --like "$WORK/template" -q --no_fsync &&
            same_files "$WORK/like.codes" "$WORK/like.values" "like $form of $dtype"
    done
done
# Codes are no weights of another type, and stay codes in a model.
expect_code 5 "$SHARDWELD" reshape "$codes" "$WORK/none" --to torch_dist --dtype fp16 -q && expect_text "which become bf16 only"
expect_code 5 "$SHARDWELD" merge --backend hf "$codes" "$WORK/none" --also "$WORK/none2:dcp" -q && expect_text "give --dtype bf16"
expect_absent "$WORK/none"
finish
