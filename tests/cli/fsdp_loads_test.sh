#!/usr/bin/env bash
# Rank files of --to fsdp, loaded by torch and by verl's own checkpoint manager into transformers' models that FSDP2 has sharded, in as many processes
# on the CPU: every parameter is that of the model they were written from. Needs a Python with torch 2.15 and transformers, and verl for its part:
# $SHARDWELD_PYTHON, else python3. Skipped loudly without; a failure under SHARDWELD_REQUIRE=fsdp2 or verl.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HF_HUB_OFFLINE=1
python_with fsdp2 torch transformers torch.distributed._mesh_layout

loaders=(torch)
if "$python" -c 'import verl.utils.checkpoint.fsdp_checkpoint_manager' 2>"$WORK/err"; then
    loaders+=(verl)
else
    echo "SKIPPED in part: verl's checkpoint manager: $(tail -1 "$WORK/err")"
    [[ ",${SHARDWELD_REQUIRE:-}," != *,verl,* ]] || fail "verl is required"
fi

# loads MODEL OPTIONS WORLD [DDP]
loads() {
    local loader
    expect_code 0 "$SHARDWELD" reshape "$WORK/$1" "$WORK/$1.$2" --to "fsdp:$2" -q --no_fsync || return
    for loader in "${loaders[@]}"; do
        "$python" "$TESTS/support/load_in_fsdp2.py" "$loader" "$WORK/$1" "$WORK/$1.$2" "${@:3}" >"$WORK/out" 2>"$WORK/err" ||
            { fail "$1 as $2 by $loader: $(grep -v '^ *File' "$WORK/err" | tail -5)"; continue; }
        expect_out "tensors loaded by $loader"
    done
}

for case in llama-tp4-legacy-bf16 qwen2-tp2-pp2-torchdist-bf16; do
    merge_case "$TESTS/data/megatron/$case" "$WORK/${case%%-*}" 0 --report none
done
loads llama world=2,device=cpu 2
loads qwen2 world=2,device=cpu 2
loads llama world=4,ddp=2,device=cpu 4 2

# The option is what makes it load: torch refuses to copy from a mesh of other devices.
expect_code 0 "$SHARDWELD" reshape "$WORK/llama" "$WORK/cuda" --to fsdp:world=2 -q --no_fsync
for loader in "${loaders[@]}"; do
    "$python" "$TESTS/support/load_in_fsdp2.py" "$loader" "$WORK/llama" "$WORK/cuda" 2 >"$WORK/out" 2>&1 && fail "$loader copies from a mesh of CUDA devices"
    expect_out "inputs with different meshes"
done
finish
