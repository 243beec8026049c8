#!/usr/bin/env bash
# States of an optimizer that reshape writes, loaded by the frameworks that train: FSDP2 by torch and by verl's own checkpoint manager, torch's
# distributed checkpoint, DeepSpeed's engine, megatron-core's distributed optimizer. Every bit of master weights and moments is what plain torch made of whole tensors
# before they were saved, and one step with given gradients makes of them what it makes of whole tensors. Needs a Python with torch 2.15 and
# transformers, and for their parts verl, deepspeed and megatron-core 0.16 or later: $SHARDWELD_PYTHON, else python3. Skipped loudly without; a
# failure under SHARDWELD_REQUIRE=fsdp2, verl, deepspeed or megatron.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HF_HUB_OFFLINE=1
python_with fsdp2 torch transformers safetensors.torch torch.distributed._mesh_layout
data="$TESTS/data/loaded_states"

# has NAME MODULE: whether the Python has it
has() {
    "$python" -c "import $2" 2>"$WORK/err" && return
    echo "SKIPPED in part: $1: $(tail -1 "$WORK/err")"
    [[ ",${SHARDWELD_REQUIRE:-}," != *,"$1",* ]] || fail "$1 is required"
    return 1
}

# written SOURCE FORM [options]: $out, a training checkpoint with its states; written once
written() {
    out="$WORK/$(basename "$1").$2"
    [[ -e "$out" ]] || expect_code 0 "$SHARDWELD" reshape "$1" "$out" --to "$2" --state all -q --no_fsync "${@:3}"
}

# loads LOADER CASE WANTED [sizes]: $out has the states, and steps
loads() {
    timeout 300 "$python" "$TESTS/support/load_states.py" "$1" "$data/$2/hf" "$WORK/$3" "$out" "${@:4}" >"$WORK/out" 2>"$WORK/err" ||
        { fail "$(basename "$out") by $1 ${*:4}: $(grep -v '^ *File' "$WORK/err" | tail -5)"; return; }
    expect_out "states loaded by"
}

# wanted CASE NAME [decay=all]
wanted() {
    expect_code 0 "$python" "$TESTS/support/load_states.py" expect "$data/$1/hf" "$data/$1/expected" "$WORK/$2" "${@:3}"
}

llama=llama-tp2-pp2-dp2
cp -r "$data/$llama/source" "$WORK/llama"
wanted "$llama" wanted
# Numbers stand for parameters in rank files: they have one group, and every parameter decays.
wanted "$llama" decayed decay=all
loaders=(torch)
! has verl verl.utils.checkpoint.fsdp_checkpoint_manager || loaders+=(verl)
for world in 2 3; do
    written "$WORK/llama" "fsdp:world=$world,device=cpu" --hf_config "$data/$llama/hf" || continue
    for loader in "${loaders[@]}"; do
        loads "$loader" "$llama" decayed "$world"
    done
done
written "$WORK/llama" dcp:world=2 --hf_config "$data/$llama/hf" && loads dcp "$llama" wanted 3

if has deepspeed deepspeed; then
    written "$WORK/llama" universal --hf_config "$data/$llama/hf"
    for stage in 1 2 3; do
        timeout 300 "$python" "$TESTS/support/load_states_in_deepspeed.py" "$data/$llama/hf" "$WORK/wanted" "$out" "$stage" 2 >"$WORK/out" 2>"$WORK/err" ||
            { fail "universal, stage $stage: $(grep -v '^ *File' "$WORK/err" | tail -5)"; continue; }
        expect_out "states loaded by DeepSpeed"
    done
fi

if has megatron megatron.core; then
    # Whole tensors as megatron-core has them: written as weights, which megatron_loads_test.sh says it reads as they are.
    as_weights() {
        for tensors in "$WORK/$1"/*/; do
            expect_code 0 "$SHARDWELD" reshape "$tensors" "$tensors/torch_dist" --to torch_dist -q --no_fsync
        done
    }
    as_weights wanted
    written "$WORK/llama" torch_dist --hf_config "$data/$llama/hf"
    loads megatron "$llama" wanted tp=2
    loads megatron "$llama" wanted dp=2
    # Older ones do not load the common values of this era.
    if "$python" -c "import megatron.core as core; exit(core.__version__ < '0.19')" 2>"$WORK/err"; then
        written "$WORK/llama" torch_dist:era=019 --hf_config "$data/$llama/hf"
        loads megatron "$llama" wanted tp=2
    fi
    # From verl's files, which know neither Megatron's groups nor its schedule.
    written "$WORK/llama.fsdp:world=2,device=cpu" torch_dist
    loads megatron "$llama" wanted tp=2
    moe=qwen3moe-tp2-ep2
    cp -r "$data/$moe/source" "$WORK/moe"
    wanted "$moe" wanted_moe
    as_weights wanted_moe
    written "$WORK/moe" torch_dist --hf_config "$data/$moe/hf"
    loads megatron "$moe" wanted_moe tp=2 ep=2
fi

# The other form in which torch writes the same: all tensors of a file, steps too, in one container of safetensors.
dcp="$TESTS/data/optimizer/dcp_w2"
"$python" - "$dcp/source" "$WORK/container" 2>"$WORK/err" <<'P' || fail "no container: $(tail -1 "$WORK/err")"
import sys
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemWriter, SerializationFormat
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
state = {}
_load_state_dict(state, storage_reader=dcp.FileSystemReader(sys.argv[1]), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
dcp.save(state, storage_writer=FileSystemWriter(sys.argv[2], serialization_format=SerializationFormat.SAFETENSORS), no_dist=True)
P
for name in source container; do
    [[ "$name" == source ]] && from="$dcp/source" || from="$WORK/container"
    expect_code 0 "$SHARDWELD" reshape "$from" "$WORK/of_$name" --to hf --state all --hf_config "$dcp/hf" -q --no_fsync --report none
done
same_files "$WORK/of_container/optimizer" "$WORK/of_source/optimizer" "states in a container"
same_tensors "$WORK/of_container" "$WORK/of_source"
finish
