# What several hosts can get wrong: the documented code on every rank, one message, nothing left.
refused() { # CODE TEXT NAME RANKS-BY-HOST [options]
    local code="$1" text="$2" name="$3"
    shift 3
    merge_on "$code" "$@" -q || fail "$name"
    expect_text "$text"
    nothing_left "$name"
}
both="$(ranks_each 2)"
from_local=(--local_dir "$LOCAL/source" --hf_config)

spread "$TESTS/data/megatron/llama-tp4-legacy-bf16/source" h1 $(host_names)
all_hosts "rm -rf '$LOCAL'/source/iter_*/mp_rank_03"
refused 3 "mp_rank_03/model_optim_rng.pt" "a file that nobody sees" "$both" "${from_local[@]}" "$TESTS/data/megatron/llama-tp4-legacy-bf16/hf"

dist="$TESTS/data/megatron/qwen2-tp2-pp2-torchdist-bf16"
spread "$dist/source" h2 $(host_names)
all_hosts "rm -f '$LOCAL'/source/iter_*/__3_1.distcp"
refused 3 "__3_1.distcp" "a DCP file that nobody sees" "$both" "${from_local[@]}" "$dist/hf"

both_hold() { # FILE CHANGE: two hosts hold it, one of them with a change
    spread "$dist/source" h1 $(host_names)
    on_host h1 "cp '$dist/source/$1' '$LOCAL/source/$1'"
    on_host h2 "cp '$dist/source/$1' '$LOCAL/source/$1'; $2'$LOCAL/source/$1'"
}
shard=iter_0000010/__3_1.distcp
both_hold $shard 'true '
merge_on 0 "$both" "${from_local[@]}" "$dist/hf" -q
both_hold $shard "truncate -s -1 "
refused 6 "__3_1.distcp" "two sizes" "$both" "${from_local[@]}" "$dist/hf"
both_hold $shard "printf x | dd conv=notrunc status=none bs=1 seek=3000 of="
refused 6 "__3_1.distcp" "two contents" "$both" "${from_local[@]}" "$dist/hf"

# The same path is another directory on each host. Once more as users run it: mpirun itself returns the code.
rm -rf "$HOSTS/out"
to_local=(merge --local_dir "$dist/source" --hf_config "$dist/hf" --target_dir "$LOCAL/out" -q)
expect_code 10 "$HERE/mpirun.sh" "$both" "${to_local[@]}"
expect_codes 10 "$both"
expect_text "same directory"
nothing_left "a private target"
MPIRUN_ENDS_RANKS=1 expect_code 10 "$HERE/mpirun.sh" "$both" "${to_local[@]}"
nothing_left "a private target, mpirun's code"
