#!/usr/bin/env bash
# Rank files of --to fsdp, loaded by torch into transformers' models that fully_shard has sharded, in as many processes on the CPU: every parameter
# is that of the model they were written from. Needs a Python with torch 2.15 and transformers: $SHARDWELD_PYTHON, else python3. Skipped loudly
# without; a failure under SHARDWELD_REQUIRE=fsdp2.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HF_HUB_OFFLINE=1
python_with fsdp2 torch transformers torch.distributed._mesh_layout

# loads MODEL OPTIONS WORLD [DDP]
loads() {
    expect_code 0 "$SHARDWELD" reshape "$WORK/$1" "$WORK/$1.$2" --to "fsdp:$2" -q --no_fsync || return
    "$python" "$TESTS/support/load_in_fsdp2.py" "$WORK/$1" "$WORK/$1.$2" "${@:3}" >"$WORK/out" 2>"$WORK/err" ||
        { fail "$1 as $2: $(grep -v '^ *File' "$WORK/err" | tail -5)"; return 1; }
}

for case in llama-tp4-legacy-bf16 qwen2-tp2-pp2-torchdist-bf16; do
    merge_case "$TESTS/data/megatron/$case" "$WORK/${case%%-*}" 0 --report none
done
loads llama world=2,device=cpu 2
loads qwen2 world=2,device=cpu 2
loads llama world=4,ddp=2,device=cpu 4 2

# The option is what makes it load: torch refuses to copy from a mesh of other devices.
expect_code 0 "$SHARDWELD" reshape "$WORK/llama" "$WORK/cuda" --to fsdp:world=2 -q --no_fsync
"$python" "$TESTS/support/load_in_fsdp2.py" "$WORK/llama" "$WORK/cuda" 2 >"$WORK/out" 2>&1 && fail "torch copies from a mesh of CUDA devices"
finish
