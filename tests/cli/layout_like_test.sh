#!/usr/bin/env bash
# --layout_like writes the files of a reference: byte for byte where the tensors are the same, else only as much of it as is true.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case="$TESTS/data/megatron/llama-tp4-legacy-bf16"
config=(--hf_config "$case/hf" --no_fsync)
KEEP="model.layers.1.mlp.down_proj.weight"

# rewritten FROM TO [HOW...]: a reference of odd files, orders and headers.
rewritten() {
    python3 "$TESTS/support/rewrite_model.py" "$@" || fail "cannot write $2"
}

# merged RANKS OUT REFERENCE [options]
merged() {
    local ranks="$1" out="$2" reference="$3"
    shift 3
    expect_code 0 mpirun -n "$ranks" "$SHARDWELD" merge "$case/source" "$WORK/$out" --layout_like "$WORK/$reference" "${config[@]}" "$@"
}

# changed OUT REFERENCE FILE...: exactly these of the reference's files are others or not there.
changed() {
    local out="$WORK/$1" reference="$WORK/$2" file
    shift 2
    printf '%s\n' "$@" | sort | grep . >"$WORK/expected_files"
    for file in "$reference"/*; do
        cmp -s "$file" "$out/${file##*/}" || echo "${file##*/}"
    done | sort >"$WORK/changed_files"
    cmp -s "$WORK/expected_files" "$WORK/changed_files" || fail "$out: other files than ($*): $(paste -sd' ' "$WORK/changed_files")"
}

# same_tensors OUT [MODEL]: whatever the files are, it is the model.
same_tensors() {
    local model="${2:-plain}"
    [[ -d "$WORK/$model.flat" ]] || rewritten "$WORK/$model" "$WORK/$model.flat" single
    rewritten "$WORK/$1" "$WORK/$1.flat" single
    cmp -s "$WORK/$1.flat/model.safetensors" "$WORK/$model.flat/model.safetensors" || fail "$1 is another model than $model"
}

# refused CODE TEXT REFERENCE [options]: in one message, with nothing written.
refused() {
    local code="$1" text="$2" reference="$3"
    shift 3
    expect_code "$code" "$SHARDWELD" merge "$case/source" "$WORK/none" --layout_like "$WORK/$reference" "${config[@]}" "$@" && expect_text "$text"
    [[ ! -e "$WORK/none" ]] || fail "a refused merge left something"
}

expect_code 0 "$SHARDWELD" merge "$case/source" "$WORK/plain" "${config[@]}"
rewritten "$WORK/plain" "$WORK/ref"

# All files, config.json and the index are the reference's, with any ranks and strategy.
for ranks in 1 3; do
    merged "$ranks" "whole-$ranks" ref && expect_text "headers of the reference in 3 of 3 weight files"
    changed "whole-$ranks" ref
    same_tensors "whole-$ranks"
done
merged 3 collective ref --strategy collective --memory_limit 16MiB
changed collective ref
grep -q "reference in 3 of 3 weight files" "$WORK/collective/README.md" || fail "the card says nothing of the layout"
python3 - "$WORK/collective/shardweld_report.json" <<'P' || fail "the report says nothing of the layout"
import json, sys
layout = json.load(open(sys.argv[1]))["layout_like"]
assert len(layout["kept_headers"]) == 3 and not layout["own_headers"] and not layout["extra"], layout
P
expect_code 0 "$SHARDWELD" plan "$case/source" --layout_like "$WORK/ref" --hf_config "$case/hf" && expect_text "3 of 3 weight files" && expect_out "a_first.safetensors"
rewritten "$WORK/plain" "$WORK/single" single
merged 2 one single && changed one single
expect_absent "$WORK/one/model.safetensors.index.json"

# A finished model as input; a reference below the checkpoint.
expect_code 0 "$SHARDWELD" merge "$WORK/plain" "$WORK/again" --layout_like "$WORK/ref" --no_fsync && changed again ref
cp -r "$case/source" "$WORK/run" && cp -r "$WORK/ref" "$WORK/run/base_model"
expect_code 0 "$SHARDWELD" merge "$WORK/run" "$WORK/inside" --layout_like "$WORK/run/base_model" "${config[@]}" && changed inside ref

# Several outputs of one read, files of links, an average, steps of a run, and headers that end anywhere.
expect_code 0 "$SHARDWELD" merge "$case/source" "$WORK/first" --also "$WORK/codes:fp8-channel" --also "$WORK/trained:torch_dist" --layout_like "$WORK/ref" "${config[@]}"
expect_text "note: $WORK/codes: laid out like" && changed first ref && [[ -s "$WORK/codes/a_first.safetensors" ]] || fail "no second output"
mkdir -p "$WORK/cache/blobs" "$WORK/cache/snapshot"
for file in "$WORK/ref"/*; do
    cp "$file" "$WORK/cache/blobs/blob-${file##*/}" && ln -s "../blobs/blob-${file##*/}" "$WORK/cache/snapshot/${file##*/}"
done
merged 1 linked cache/snapshot && changed linked ref
expect_code 0 "$SHARDWELD" merge --average "$WORK/plain" "$WORK/plain" "$WORK/mean" --layout_like "$WORK/ref" --no_fsync && changed mean ref
expect_code 0 "$SHARDWELD" watch "$case/source" "$WORK/steps" --interval 0.2 --idle_exit 2 --layout_like "$WORK/ref" "${config[@]}" && changed steps/iter_0000010 ref
merged 3 direct ref --direct_io && changed direct ref

# One value: one file.
rewritten "$WORK/plain" "$WORK/ref_value" "value=$KEEP"
of_value="$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["weight_map"][sys.argv[2]])' "$WORK/ref/model.safetensors.index.json" "$KEEP")"
merged 2 value ref_value && changed value ref_value "$of_value"
changed value ref

# The reference lacks a tensor, has one more, or has another type: only what is concerned is another, and it is said.
rewritten "$WORK/plain" "$WORK/ref_lacks" "drop=$KEEP"
merged 3 extra ref_lacks && expect_text "tensors that it does not have: $KEEP"
changed extra ref_lacks model.safetensors.index.json
[[ -s "$WORK/extra/model-extra.safetensors" ]] || fail "no file for what the reference lacks"
same_tensors extra
rewritten "$WORK/plain" "$WORK/ref_more" "add=model.mtp.weight:$KEEP"
merged 1 less ref_more && expect_text "tensors that only it has: model.mtp.weight" && expect_text "2 of 3 weight files"
changed less ref_more model.safetensors.index.json "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["weight_map"]["model.mtp.weight"])' "$WORK/ref_more/model.safetensors.index.json")"
same_tensors less
rewritten "$WORK/plain" "$WORK/ref_type" "dtype=$KEEP"
merged 2 type ref_type && expect_text "the types of 1 tensor are not the reference's: $KEEP is bfloat16 here and float32" && expect_text "--dtype fp32"
changed type ref_type model.safetensors.index.json "$of_value"
same_tensors type
rewritten "$WORK/plain" "$WORK/single_lacks" single "drop=$KEEP"
merged 2 single_extra single_lacks && same_tensors single_extra
expect_absent "$WORK/single_extra/model-extra.safetensors"
rewritten "$WORK/plain" "$WORK/no_index" no_index
merged 1 indexed no_index && changed indexed no_index
[[ -s "$WORK/indexed/model.safetensors.index.json" ]] || fail "several files without an index"

# Files of the reference of which nothing is left.
merged 2 part ref --include "^$KEEP\$" && expect_text "are not written"

# A tied head that the reference stores; names of another beginning; codes and scales.
tied="$TESTS/data/megatron/qwen2-tied-pp2-vpp2-core019-torchdist-bf16"
expect_code 0 "$SHARDWELD" merge "$tied/source" "$WORK/tied" --hf_config "$tied/hf" --no_fsync
rewritten "$WORK/tied" "$WORK/ref_tied" "add=lm_head.weight:model.embed_tokens.weight"
expect_code 0 "$SHARDWELD" merge "$tied/source" "$WORK/tied_like" --hf_config "$tied/hf" --no_fsync --layout_like "$WORK/ref_tied" && expect_text "only it has: lm_head.weight"
same_tensors tied_like tied
python3 "$TESTS/support/random_model.py" "$TESTS/data/hf_names/gemma3.base.json" "$WORK/gemma" || fail "cannot make gemma"
rewritten "$WORK/gemma" "$WORK/gemma_like" "prefix=language_model.model.:model.language_model."
expect_code 0 "$SHARDWELD" merge "$WORK/gemma" "$WORK/gemma_out" --layout_like "$WORK/gemma_like" --no_fsync && changed gemma_out gemma_like
for how in fp8-channel nvfp4a16; do
    expect_code 0 "$SHARDWELD" merge "$case/source" "$WORK/plain-$how" "${config[@]}" --quantize "$how"
    rewritten "$WORK/plain-$how" "$WORK/ref-$how" single
    merged 3 "out-$how" "ref-$how" --quantize "$how" && changed "out-$how" "ref-$how"
    rewritten "$WORK/plain-$how" "$WORK/scattered-$how"
    merged 3 "back-$how" "scattered-$how" --quantize "$how"
    same_tensors "back-$how" "plain-$how"
done

# An adapter lies beside the base as ever; alone it has no layout.
lora="$TESTS/data/torch/fsdp2_lora_w2_fp32_qwen2/source"
expect_code 0 "$SHARDWELD" merge "$lora" "$WORK/lora" --no_fsync
rewritten "$WORK/lora" "$WORK/ref_lora"
expect_code 0 mpirun -n 2 "$SHARDWELD" merge "$lora" "$WORK/lora_like" --layout_like "$WORK/ref_lora" --no_fsync && expect_text "in 3 of 3 weight files" && changed lora_like ref_lora
cmp -s "$WORK/lora/lora_adapter/adapter_model.safetensors" "$WORK/lora_like/lora_adapter/adapter_model.safetensors" || fail "another adapter"
expect_code 5 "$SHARDWELD" merge "$TESTS/data/torch/fsdp2_loraonly_w2_fp32_qwen2/source" "$WORK/none" --layout_like "$WORK/ref_lora" --no_fsync && expect_text "nothing but an adapter"

# References that are none.
hostile() { rm -rf "$WORK/bad" && cp -r "$WORK/ref" "$WORK/bad"; }
hostile && truncate -s 100 "$WORK/bad/a_first.safetensors"
refused 4 "where: file a_first.safetensors; reference $WORK/bad" bad
hostile && printf '\xff\xff\xff\xff\xff\xff\xff\x7f' | dd of="$WORK/bad/a_first.safetensors" conv=notrunc status=none
refused 4 "malformed safetensors header: it claims" bad
hostile && rm "$WORK/bad/a_first.safetensors"
refused 3 "names a_first.safetensors, which is not there" bad
for name in ../ref/a_first.safetensors /etc/passwd; do
    hostile && sed -i "s|a_first.safetensors|$name|" "$WORK/bad/model.safetensors.index.json"
    refused 4 "leaves the directory" bad
done
hostile && mkdir "$WORK/bad/below" && mv "$WORK/bad/a_first.safetensors" "$WORK/bad/below/" && sed -i "s|a_first|below/a_first|" "$WORK/bad/model.safetensors.index.json"
refused 5 "no safetensors file of this directory" bad
hostile && cp "$WORK/bad/a_first.safetensors" "$WORK/bad/b.safetensors" && rm "$WORK/bad/model.safetensors.index.json"
refused 6 "is in a_first.safetensors and in b.safetensors" bad
hostile && cp "$WORK/bad/model.safetensors.index.json" "$WORK/bad/other.safetensors.index.json" && mv "$WORK/bad/model.safetensors.index.json" "$WORK/bad/more.safetensors.index.json"
refused 6 "has two indices" bad
hostile && sed -i "0,/$KEEP/s//model.nothing/" "$WORK/bad/model.safetensors.index.json"
refused 6 "model.nothing" bad
python3 - "$WORK" <<'P'
import os, struct, sys
os.mkdir(sys.argv[1] + "/twice")
text = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
open(sys.argv[1] + "/twice/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + b"ab")
os.mkdir(sys.argv[1] + "/torch")
open(sys.argv[1] + "/torch/pytorch_model.bin", "wb").write(b"PK")
P
refused 4 "comes twice" twice
refused 5 "holds no weights in safetensors" torch
refused 3 "absent" absent
rewritten "$WORK/plain" "$WORK/stranger" single "prefix=model.:other." "prefix=lm_head.:head."
refused 6 "has no tensor of the model, such as lm_head.weight" stranger

# What contradicts it.
refused 2 "--layout_like and --max_shard_size" ref --max_shard_size 1GB
refused 2 "not for GGUF" ref --quantize gguf:q8_0
refused 2 "--to torch_dist" ref --to torch_dist
refused 2 "--names module" ref --names module
expect_code 12 "$SHARDWELD" merge "$case/source" "$WORK/ref" --layout_like "$WORK/ref" --overwrite "${config[@]}"
changed whole-1 ref

# A merge that was killed goes on with the same reference, by other ranks, and with no other.
source "$(dirname "${BASH_SOURCE[0]}")/resume_lib.sh"
make_big
rewritten "$WORK/reference" "$WORK/ref_big"
rewritten "$WORK/reference" "$WORK/ref_other" single
rm -rf "$WORK/reference"
merge_of big 2 --no_fsync --layout_like "$WORK/ref_big" --report "$WORK/reference.json" && expect_code 0 "${command[@]}"
mv "$WORK/merged" "$WORK/reference"
changed reference ref_big
for n_ranks in 1 3; do
    merge_of big 3 "${SLOW[@]}" --layout_like "$WORK/ref_big"
    signalled KILL one 137 200
    merge_of big "$n_ranks" --no_fsync --layout_like "$WORK/ref_big"
    resumed 20
done
merge_of big 3 "${SLOW[@]}" --layout_like "$WORK/ref_big"
signalled KILL one 137 200
merge_of big 2 --no_fsync --layout_like "$WORK/ref_other" --resume
expect_code 6 "${command[@]}" && expect_text "or what --layout_like names"
finish
