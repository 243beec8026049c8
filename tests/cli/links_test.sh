#!/usr/bin/env bash
# Links, FIFOs, sockets, devices and directories where files are expected: followed, warned of or refused on purpose; never waited for.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/errors.sh"
fsdp=torch/fsdp1_w2_fp32_llama
rank=model_world_size_2_rank_1.pt
dcp=torch/dcp_w2_bf16_qwen2
outside="$WORK/outside"
mkdir "$outside"
echo '{"secret": "kept"}' >"$outside/secret.json"

# warned NAME TEXT: the merge succeeds and says so; under --strict it is refused.
warned() {
    merge_copy 0
    expect_code 0 "${merging[@]/#-q/--progress=none}" || echo "    (warned: $1)"
    expect_text "$2"
    rm -rf "$target"
    more=(--strict)
    refused "$1, strict" 14 0 "$2"
    more=()
}

# A FIFO, a socket, a device, a directory and a link to itself.
make_special() {
    rm -rf "$2"
    case "$1" in
        fifo) mkfifo "$2" ;;
        socket) (cd "$(dirname "$2")" && python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$(basename "$2")") ;;
        device) ln -s /dev/zero "$2" ;;
        terminal) ln -s /dev/tty "$2" ;;
        directory) mkdir "$2" ;;
        circle) ln -s "$(basename "$2")" "$2" ;;
    esac
}
for kind in fifo socket device terminal directory circle; do
    start "$fsdp"
    make_special "$kind" "$source/$rank"
    refused "a rank file that is a $kind" 3 0 "$rank"
    start "$fsdp"
    make_special "$kind" "$source/huggingface/tokenizer.json"
    accepted "a tokenizer that is a $kind is left aside"
    warned "a tokenizer that is a $kind" "tokenizer.json (a"
    start "$dcp"
    make_special "$kind" "$source/.metadata"
    refused "metadata that is a $kind" 3 0 ".metadata"
done
for kind in fifo socket device terminal directory; do
    start "$dcp"
    make_special "$kind" "$source/__1_0.distcp"
    refused "a shard that is a $kind" 3 3 "__1_0.distcp" "1 file of the checkpoint is missing: __1_0.distcp (looked for in "
done

# Links inside the checkpoint, and out of it.
start "$fsdp"
mkdir "$source/disk"
mv "$source/$rank" "$source/disk"
ln -s "disk/$rank" "$source/$rank"
with_tokenizer "$source"
merge_copy 0 --strict
expect_code 0 "${merging[@]}"
ln -s "$source" "$WORK/alias"
rm -rf "$target"
source="$WORK/alias"
accepted "a checkpoint behind a link" --strict
source="$WORK/copy/source"
mv "$source/disk/$rank" "$outside/$rank"
ln -sf "$outside/$rank" "$source/$rank"
warned "a rank file elsewhere" "1 link leads out of the checkpoint, $rank to $outside/$rank"

start "$fsdp"
mkdir "$outside/disk"
mv "$source" "$outside/disk/actor"
mkdir "$source"
ln -s "$outside/disk/actor" "$source/actor"
more=(--hf_config "$outside/disk/actor/huggingface")
options=("${more[@]}")
more=()
warned "a role's directory elsewhere" "1 link leads out of the checkpoint, actor to $outside/disk/actor"

# A directory, a parameter's directory and a file of a parameter: each is counted.
start deepspeed/universal_tp2
options=(--hf_config "$TESTS/data/deepspeed/autotp_zero1_tp2dp2/hf")
zero="$source/global_step1_universal/zero"
mkdir "$outside/zero"
mv "$zero/lm_head.weight" "$zero/model.norm.weight/fp32.pt" "$outside/zero"
ln -s "$outside/zero/lm_head.weight" "$zero/lm_head.weight"
ln -s "$outside/zero/fp32.pt" "$zero/model.norm.weight/fp32.pt"
warned "a parameter elsewhere" "2 links lead out of the checkpoint, lm_head.weight to $outside/zero/lm_head.weight"
start megatron/llama-tp4-legacy-bf16
mv "$iter/mp_rank_01/model_optim_rng.pt" "$outside/rank.pt"
ln -s "$outside/rank.pt" "$iter/mp_rank_01/model_optim_rng.pt"
with_tokenizer "$hf"
warned "a rank's only file elsewhere" "1 link leads out of the checkpoint, model_optim_rng.pt to $outside/rank.pt"

# What is copied as it is must be the checkpoint's own.
start "$fsdp"
ln -s "$outside/secret.json" "$source/huggingface/tokenizer.json"
refused "a tokenizer elsewhere" 4 3 "huggingface/tokenizer.json leads through a link out of the checkpoint, to $outside/secret.json" "--hf_config"
merge_copy 0 --hf_config "$source/huggingface"
expect_code 0 "${merging[@]}"
cmp -s "$target/tokenizer.json" "$outside/secret.json" || fail "a tokenizer that was asked for is not copied"
start "$fsdp"
cp "$source/huggingface/config.json" "$outside"
ln -sf "$outside/config.json" "$source/huggingface/config.json"
refused "a config elsewhere" 4 0 "huggingface/config.json leads through a link out of the checkpoint"
start "$fsdp"
mkdir "$source/lora_adapter"
ln -s "$outside/secret.json" "$source/lora_adapter/adapter_config.json"
refused "an adapter's configuration elsewhere" 4 0 "adapter_config.json leads through a link out of the checkpoint"
start megatron/qwen2-tied-tp2-zarr
chunk=decoder.final_layernorm.weight/0
mv "$iter/$chunk" "$outside/chunk"
ln -s "$outside/chunk" "$iter/$chunk"
refused "a chunk elsewhere" 4 0 "decoder.final_layernorm.weight" "leads through a link out of the checkpoint"

# The Hub's cache: snapshots are links to blobs.
cache="$WORK/models--a--b"
mkdir -p "$cache/blobs" "$cache/snapshots/0123"
for file in "$TESTS/data/hf/qwen2-tied-bin-zip-2-files"/*; do
    cp "$file" "$cache/blobs/$(basename "$file").blob"
    ln -s "../../blobs/$(basename "$file").blob" "$cache/snapshots/0123/$(basename "$file")"
done
with_tokenizer "$cache/snapshots"
target="$place/model"
expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$cache/snapshots/0123" --target_dir "$target" -q --strict
rm -rf "$target"
# Copied without its blobs, it would lose the tokenizer in silence.
ln -s ../../blobs/abc "$cache/snapshots/0123/tokenizer.json"
expect_code 14 "$SHARDWELD" merge --backend hf --local_dir "$cache/snapshots/0123" --target_dir "$target" -q --strict
expect_text "side_file_lost"
expect_text "tokenizer.json (a dangling link)"
expect_absent "$target"
rm "$cache/snapshots/0123/tokenizer.json"
start megatron/llama-tp4-legacy-bf16
for file in "$hf"/*; do
    mv "$file" "$cache/blobs/hf_$(basename "$file")"
    ln -s "$cache/blobs/hf_$(basename "$file")" "$file"
done
accepted "--hf_config of links"

# Names that a terminal would obey.
start "$fsdp"
for name in $'\e[31mred' $'two\nlines' $'bell\a' "../../etc/passwd" $'\xff\xfe'; do
    code=6
    [[ "$name" != $'\xff\xfe' ]] || code=4
    start "$fsdp"
    damage copy_entry "$source/$rank" model.norm.weight "$name"
    refused "a tensor called $(printf %q "$name")" "$code" 0 "$rank"
    if grep -q $'[\x01-\x08\x0b-\x1f\x7f]' "$WORK/err"; then
        fail "control characters are printed"
    fi
done
# Words of any language are shown as they are.
start "$fsdp"
damage copy_entry "$source/$rank" model.norm.weight "模型.权重"
refused "a tensor called 模型.权重" 6 0 "$rank"
expect_text "模型.权重"
finish
