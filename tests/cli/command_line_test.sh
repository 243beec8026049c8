#!/usr/bin/env bash
# The program's manners: exit codes, what goes to stdout and stderr, one message from many ranks.
source "$(dirname "$0")/lib.sh"
CASE="$TESTS/data/megatron/llama-tp4-legacy-bf16"

# stdout_is_empty / stderr_is_empty
stdout_is_empty() {
    [[ ! -s "$WORK/out" ]] || fail "standard output is not empty: $(head -c 600 "$WORK/out")"
}
stderr_is_empty() {
    [[ ! -s "$WORK/err" ]] || fail "standard error is not empty: $(head -c 600 "$WORK/err")"
}

# stderr_count TEXT N: TEXT stands in N lines of standard error.
stderr_count() {
    local found
    found="$(grep -cF -- "$1" "$WORK/err")"
    [[ "$found" == "$2" ]] || fail "'$1' stands $found times in standard error, expected $2"
}

expect_code 0 "$SHARDWELD" --version && expect_out "shardweld " && stderr_is_empty
expect_code 0 "$SHARDWELD" --version --verbose && stderr_is_empty
[[ "$(cut -d' ' -f1 "$WORK/out" | tr '\n' ' ')" == "shardweld compiler: MPI: HDF5: processor: " ]] || fail "--version --verbose: $(cat "$WORK/out")"
grep -qE '^compiler: .*[0-9]+\.[0-9]+' "$WORK/out" && grep -qE '^MPI: .*[0-9]+\.[0-9]+' "$WORK/out" && grep -qE '^HDF5: (none$|[0-9]+\.[0-9]+\.[0-9]+$)' "$WORK/out" ||
    fail "--version --verbose names no versions: $(cat "$WORK/out")"
# What the processor has, told by the kernel.
if grep -qw avx2 /proc/cpuinfo && grep -qw f16c /proc/cpuinfo && grep -qw fma /proc/cpuinfo; then
    wanted='processor: AVX2, F16C, FMA'
    [[ "$(grep -owE 'avx512(f|bw|vl|dq)' /proc/cpuinfo | sort -u | wc -l)" != 4 ]] || wanted+=', AVX-512'
    grep -qx "$wanted" "$WORK/out" || fail "$(tail -1 "$WORK/out"), expected $wanted"
fi
for command in merge plan inspect recipes; do
    expect_code 0 "$SHARDWELD" "$command" --help && expect_out "Usage: shardweld $command" && stderr_is_empty
done

expect_code 0 "$SHARDWELD" merge -h && expect_out "Usage: shardweld merge" && expect_out "shardweld merge --help" && stderr_is_empty
[[ "$(grep -cE '^ +(-[a-z], )?--' "$WORK/out")" == 10 ]] || fail "merge -h does not list ten options"
# Help starts no MPI: it is there where MPI cannot start. That it cannot is told by the code alone (2 would be the program's own):
# Open MPI's words are passed on by mpirun, which may lose them.
without_mpi=(mpirun -n 2 --mca pml none "$SHARDWELD")
expect_code 0 "${without_mpi[@]}" merge --help && expect_out "Usage: shardweld merge"
expect_code 1 "${without_mpi[@]}" recipes --nonsense
expect_code 2 mpirun -n 2 "$SHARDWELD" recipes --nonsense && stderr_count "unknown option --nonsense" 1

# Wrong command lines: one message on stderr, nothing on stdout.
expect_code 2 "$SHARDWELD" && expect_text "no command is given" && stdout_is_empty
expect_code 2 "$SHARDWELD" merge && expect_text "no directory is given"
expect_code 2 "$SHARDWELD" merge --local-dri x && expect_text "did you mean --local_dir?"
expect_code 2 "$SHARDWELD" merge --local_dir a --local-dir b && expect_text "--local_dir is given twice"
expect_code 2 "$SHARDWELD" plan --local_dir "$CASE/source" && expect_text "pass --hf_config DIR" && stdout_is_empty
expect_code 5 "$SHARDWELD" merge --local_dir x --map y && expect_text "not in this version yet"
expect_code 2 "$SHARDWELD" merge --local_dir x --test_hf_dir y && expect_text "is not an option of merge"
expect_code 3 "$SHARDWELD" inspect "$WORK/nowhere" && expect_text "$WORK/nowhere does not exist"
expect_code 2 mpirun -n 3 "$SHARDWELD" merge --bad && stderr_count "error: unknown option --bad" 1
expect_code 0 mpirun -n 3 "$SHARDWELD" inspect "$CASE/source" --json
python3 -m json.tool "$WORK/out" >/dev/null || fail "inspect under mpirun printed something else than one JSON text"

# Ranks read the metadata together and tell what one tells alone, but for memory, which is measured.
without_memory() {
    python3 -c 'import json, sys; print(json.load(sys.stdin, object_hook=lambda told: {k: v for k, v in told.items() if k not in ("memory", "peak_bytes", "metadata_bytes")}))'
}
for command in "inspect $CASE/source" "plan --local_dir $CASE/source --hf_config $CASE/hf --ranks 5"; do
    expect_code 0 "$SHARDWELD" $command --json && without_memory <"$WORK/out" >"$WORK/alone"
    expect_code 0 mpirun -n 3 "$SHARDWELD" $command --json &&
        { without_memory <"$WORK/out" | cmp -s "$WORK/alone" - || fail "3 ranks tell something else than one: $command"; }
done

# Results that cannot be written are an error, not a success.
"$SHARDWELD" recipes >/dev/full 2>"$WORK/err"
[[ $? == 7 ]] || fail "recipes > /dev/full did not exit with code 7"

# plan tells what merge writes: every tensor's bytes are where plan says.
expect_code 0 "$SHARDWELD" plan --local_dir "$CASE/source" --hf_config "$CASE/hf" --ranks 1000 --json
stderr_is_empty
cp "$WORK/out" "$WORK/plan.json"
expect_absent tmp
expect_code 0 "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$WORK/out-dir" -q
stdout_is_empty
stderr_is_empty
python3 - "$WORK/plan.json" "$WORK/out-dir" <<'PY' || fail "plan --json and the files disagree"
import json, os, struct, sys
plan = json.load(open(sys.argv[1]))
assert len(plan["written_by_rank"]) == 1000
tensors = {}
for name in os.listdir(sys.argv[2]):
    if name.endswith(".safetensors"):
        with open(os.path.join(sys.argv[2], name), "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        for tensor, entry in header.items():
            if tensor != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[tensor] = (name, 8 + length + begin, end - begin, entry["shape"])
planned = {t["name"]: (t["file"], t["offset"], t["bytes"], t["shape"]) for t in plan["tensors"]}
assert planned == tensors, (planned, tensors)
for file in plan["files"]:
    assert os.path.getsize(os.path.join(sys.argv[2], file["name"])) == file["bytes"], file
PY

# The target: refused when full, replaced with --overwrite, never left half.
before="$(sum_of "$WORK/out-dir")"
expect_code 12 mpirun -n 2 "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$WORK/out-dir"
stderr_count "exists and is not empty" 1
echo stale >"$WORK/out-dir/stale.safetensors"
expect_code 0 mpirun -n 2 "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$WORK/out-dir/" --overwrite -q
[[ "$(sum_of "$WORK/out-dir")" == "$before" ]] || fail "--overwrite left something of the old target or wrote something else"
[[ -z "$(find "$WORK" -name '.*shardweld*')" ]] || fail "left behind: $(find "$WORK" -name '.*shardweld*')"

# The config's file in the current directory stands for that directory.
(cd "$CASE/hf" && "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config config.json --target_dir "$WORK/by_file" -q) || fail "--hf_config config.json"
same_as_expected "$CASE" "$WORK/by_file"
# The current directory is the target; a report goes with the model that it is of.
(cd "$WORK/by_file" && merge_case "$CASE" . 0 --overwrite && [[ -s shardweld_report.json ]] && merge_case "$CASE" . 0 --overwrite --report none) || fail "merges into the current directory"
expect_absent "$WORK/by_file/shardweld_report.json"
finish
