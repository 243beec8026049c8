#!/usr/bin/env bash
# Memory: what plan predicts is what ranks take, whatever the model's size; less is refused cleanly.
# Usage: memory_limit_test.sh SHARDWELD TESTS-DIR (make_checkpoint lies beside the program)
source "$(dirname "$0")/lib.sh"
MAKE="$(dirname "$SHARDWELD")/make_checkpoint"
MiB=$((1 << 20))

# number FILE EXPRESSION: of a JSON text in $1, as `it`.
number() {
    python3 -c 'import json, sys; it = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"
}

peak_of_ranks() { number "$1" 'max(rank["peak_bytes"] for rank in it["ranks"])'; }

options_of() { echo --local_dir "$WORK/$1/source" --hf_config "$WORK/$1/hf"; }

launch() { (($1 == 1)) || echo mpirun -n "$1"; }

# predicted CHECKPOINT RANKS [options]: bytes.
predicted() {
    local name="$1" ranks="$2"
    shift 2
    "$SHARDWELD" plan $(options_of "$name") --ranks "$ranks" --json "$@" >"$WORK/plan.json" 2>"$WORK/err" && number "$WORK/plan.json" 'it["peak_bytes"]'
}

# holds CHECKPOINT RANKS [options]: a merge takes what plan says, within a tenth and half a megabyte.
holds() {
    local name="$1" ranks="$2" said taken
    shift 2
    rm -rf "$WORK/merged"
    said="$(predicted "$name" "$ranks" --report "$WORK/none" "$@")"
    expect_code 0 $(launch "$ranks") "$SHARDWELD" merge $(options_of "$name") --target_dir "$WORK/merged" -q --report "$WORK/report.json" "$@" || return
    taken="$(peak_of_ranks "$WORK/report.json")"
    local off=$((said > taken ? said - taken : taken - said))
    ((taken > 2 * MiB && off <= taken / 10 + MiB / 2)) || fail "$name, $ranks ranks, $*: plan says $said bytes, a rank took $taken"
}

for format in legacy torch_dist fsdp; do
    "$MAKE" --gb 0.06 --tp 2 --format "$format" "$WORK/$format" >/dev/null || fail "make_checkpoint $format"
done
holds legacy 1
holds legacy 4 --memory_limit 8MiB --strategy collective
holds legacy 2 --dtype fp32 --strategy direct
holds torch_dist 1 --memory_limit 64MiB
holds torch_dist 2 --strategy collective
holds fsdp 1 --memory_limit 1MiB
holds fsdp 2 --dtype fp32 --memory_limit 8MiB --strategy collective

# What makes the files takes more than buffers where there are many datasets: 965.
if [[ -e "$(dirname "$SHARDWELD")/shardweld_hdf5.so" ]]; then
    "$MAKE" --model moe --layers 20 --format legacy "$WORK/many" >/dev/null
    for ranks in 1 2; do
        holds legacy "$ranks" --output_format hdf5
        holds many "$ranks" --output_format hdf5 --memory_limit 1MiB
    done
    "$MAKE" --model moe --layers 400 --format legacy "$WORK/more" >/dev/null # 19,965
    holds more 1 --output_format hdf5 --memory_limit 1MiB --no_fsync
    rm -rf "$WORK/more"
fi

# The independent check: the kernel refuses more (RLIMIT_DATA), and two megabytes less are too little. It counts memory that is
# reserved, touched or not: what the lines of dialects took while they were parsed, and the stacks of MPI's two threads besides (8 MiB each, and
# what belongs to them).
threads=$((20 * MiB))
for ranks in 1 2; do
    "$SHARDWELD" merge $(options_of legacy) --target_dir "$WORK/expected" -q --read_ahead no --strategy direct
    said="$(predicted legacy "$ranks" --read_ahead no --strategy direct)"
    enough=$((said + 3 * MiB + (ranks > 1 ? threads : 0)))
    rm -rf "$WORK/merged"
    expect_code 0 $(launch "$ranks") prlimit --data="$enough" "$SHARDWELD" merge $(options_of legacy) --target_dir "$WORK/merged" -q --read_ahead no --strategy direct
    [[ "$(sum_of "$WORK/merged")" == "$(sum_of "$WORK/expected")" ]] || fail "$ranks ranks: other bytes under a limit of memory"
    rm -rf "$WORK/merged" "$WORK/expected"
    little=$((said - 2 * MiB + (ranks > 1 ? threads - 6 * MiB : 0)))
    expect_code 9 $(launch "$ranks") prlimit --data="$little" "$SHARDWELD" merge $(options_of legacy) --target_dir "$WORK/merged" -q --read_ahead no --strategy direct &&
        expect_text "memory ran out"
    expect_absent "$WORK/merged"
    [[ -z "$(find "$WORK" -maxdepth 1 -name '.merged*')" ]] || fail "$ranks ranks: $(ls -a "$WORK") is left"
done

# A tensor of 512 MiB: buffers of 8 MiB, the program, and the stacks of MPI's threads.
"$MAKE" --gb 0.001 --vocab $((1 << 20)) --sparse --format legacy "$WORK/wide" >/dev/null
enough=$((40 * MiB))
rm -rf "$WORK/merged"
expect_code 0 mpirun -n 2 prlimit --data="$enough" "$SHARDWELD" merge $(options_of wide) --target_dir "$WORK/merged" -q --no_fsync \
    --memory_limit 8MiB --strategy direct --report "$WORK/report.json"
largest="$(number "$WORK/report.json" 'max(tensor["bytes"] for tensor in it["tensors"])')"
((largest == 512 * MiB)) || fail "the largest tensor has $largest bytes"
for strategy in direct collective; do
    expect_code 0 mpirun -n 2 prlimit --data="$enough" "$SHARDWELD" test $(options_of wide) --test_hf_dir "$WORK/merged" -q --memory_limit 8MiB \
        --strategy "$strategy" --report "$WORK/report.json"
    buffers="$(number "$WORK/report.json" 'max(rank["buffer_bytes"] for rank in it["ranks"])')"
    ((MiB < buffers && buffers <= 8 * MiB)) || fail "a $strategy test of a large tensor took $buffers bytes of buffers"
done
rm -rf "$WORK/merged" "$WORK/wide"

# Ten times the bytes, the same peak.
"$MAKE" --gb 0.064 --sparse --format fsdp "$WORK/small" >/dev/null
"$MAKE" --gb 0.64 --sparse --format fsdp "$WORK/large" >/dev/null
for size in small large; do
    holds "$size" 1 --memory_limit 8MiB
    cp "$WORK/report.json" "$WORK/$size.json"
    rm -rf "$WORK/merged"
done
small="$(peak_of_ranks "$WORK/small.json")"
large="$(peak_of_ranks "$WORK/large.json")"
((large < small + MiB)) || fail "peak of $large bytes for ten times the model, $small for it"

# A header of very many tensors: about 1,000 bytes for each, its text included (docs/using/security.md).
python3 - "$WORK/wide" <<'P'
import json, os, struct, sys
os.makedirs(sys.argv[1])
tensors = {f"m.layers.{i // 1024:04}.experts.{i % 1024:04}.w": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [8 * i, 8 * i + 8]} for i in range(200000)}
text = json.dumps(tensors, separators=(",", ":")).encode()
with open(sys.argv[1] + "/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text)
    file.truncate(8 + len(text) + 8 * len(tensors))
P
expect_code 0 bash -c 'ulimit -d 205000; exec "$0" inspect --local_dir "$1" --backend hf' "$SHARDWELD" "$WORK/wide"
rm -r "$WORK/wide"
finish
