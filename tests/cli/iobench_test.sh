#!/usr/bin/env bash
# iobench from the outside: what it prints, what it leaves behind, what it refuses; merges beside a measured roof; --stripe with a
# stand-in for Lustre's lfs.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
fixture="$TESTS/data/megatron/llama-tp4-legacy-bf16"
place="$WORK/place"
mkdir "$place"

# expect_json FILE EXPRESSION: of Python, true of the JSON value r.
expect_json() {
    python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$1" "$2" ||
        fail "not so: $2 in $(head -c 600 "$1")"
}

expect_empty() {
    [[ -z "$(ls -A "$1")" ]] || fail "$1 is not empty: $(ls -A "$1")"
}

for ranks in 1 3; do
    # 20,000,001 bytes in files of 7 MB: files, ranks and extents end at different places.
    expect_code 0 mpirun -n "$ranks" "$SHARDWELD" iobench "$place" --size 20000001 --max_shard_size 7MB --extent 64KiB \
        --report "$WORK/roof$ranks.json" --json
    expect_empty "$place"
    cmp -s "$WORK/out" "$WORK/roof$ranks.json" || fail "--json and --report differ"
    expect_json "$WORK/roof$ranks.json" "r['schema'] == 1 and r['command'] == 'iobench' and r['ranks'] == $ranks"
    expect_json "$WORK/roof$ranks.json" "r['bytes'] == 20000001 and r['file_bytes'] == 7000000 and r['extent_bytes'] == 65536"
    expect_json "$WORK/roof$ranks.json" "r['fsync'] is True and r['cold'] is False and r['source'] is None and r['repeats'] == 3"
    for pass in write read copy copy_behind roof; do
        expect_json "$WORK/roof$ranks.json" \
            "(lambda p: len(p['runs_wall_s']) == 3 and len(p['runs_cpu_s']) == 3 and sorted(p['runs_wall_s'])[1] == p['wall_s'] > 0
              and abs(p['gbs'] - r['bytes'] / 1e9 / p['wall_s']) < 1e-9 * p['gbs'])(r['$pass'])"
    done
done

# It does what it measures: the bytes go through this process's reads and writes.
mkdir -p "$WORK/source/below"
head -c 3000000 /dev/urandom >"$WORK/source/a"
head -c 1234567 /dev/urandom >"$WORK/source/below/b"
: >"$WORK/source/empty"
sum="$(sum_of "$WORK/source")"
expect_code 0 "$SHARDWELD" iobench "$place" --source "$WORK/source" --repeats 2 --no_fsync --keep_files --max_shard_size 1MB
expect_text 'kept '
grep -q '(roof)' "$WORK/out" || fail "no table: $(cat "$WORK/out")"
[[ "$(ls -A "$place")" == .shardweld-iobench-* ]] || fail "kept: $(ls -A "$place")"
rm -rf "$place"/.shardweld-iobench-*
expect_code 0 "$SHARDWELD" iobench "$place" --source "$WORK/source" --cold --repeats 1 --json
expect_json "$WORK/out" "r['bytes'] == 4234567 and r['cold'] is True and 0 <= r['stayed_cached_bytes'] <= 4234567"
[[ "$(sum_of "$WORK/source")" == "$sum" ]] || fail "iobench changed its source"
expect_empty "$place"

# Files come and go in full size: looked at while the last pass runs, from the sizes that strace sees.
if command -v strace >/dev/null; then
    expect_code 0 strace -f -o "$WORK/calls" -e trace=pread64,pwrite64,fallocate "$SHARDWELD" iobench "$place" --size 5MB --repeats 1 --extent 1MiB
    moved() { awk -F' = ' -v call="$1" 'index($1, call "(") { total += $NF } END { printf "%d", total }' "$WORK/calls"; }
    # Written: the source, the write pass, both copies. Read: the read pass and both copies.
    [[ "$(moved pwrite64)" -ge 20000000 && "$(moved pwrite64)" -lt 20000200 ]] || fail "wrote $(moved pwrite64) bytes"
    [[ "$(moved pread64)" -ge 15000000 && "$(moved pread64)" -lt 15200000 ]] || fail "read $(moved pread64) bytes"
    [[ "$(grep -c 'fallocate(' "$WORK/calls")" == 4 ]] || fail "space was not reserved"
else
    echo "SKIPPED: strace is not installed: the calls of iobench were not counted"
fi

# What only writes or only reads can be left out.
expect_code 0 "$SHARDWELD" iobench "$place" --size 1MB --repeats 1 --copies_only --json
expect_json "$WORK/out" "r['write']['runs_wall_s'] == r['read']['runs_wall_s'] == [] and r['roof']['gbs'] == max(r['copy']['gbs'], r['copy_behind']['gbs']) > 0"

# Refusals.
expect_code 2 "$SHARDWELD" iobench && expect_text 'no directory is given'
expect_code 2 "$SHARDWELD" iobench "$place" --extent 1000 && expect_text 'multiple of 4096'
expect_code 2 "$SHARDWELD" iobench "$place" --size 1MB --source "$WORK/source" && expect_text 'exclude each other'
expect_code 2 "$SHARDWELD" iobench "$place" --max_shard_size 1KB && expect_text '64KiB'
expect_code 2 mpirun -n 3 "$SHARDWELD" iobench "$place" --repeats 0
expect_code 3 mpirun -n 3 "$SHARDWELD" iobench "$WORK/absent" --size 1MB && expect_text "$WORK/absent"
expect_code 3 "$SHARDWELD" iobench "$place" --source "$WORK/absent" && expect_text "$WORK/absent"
mkdir "$WORK/empty"
expect_code 3 "$SHARDWELD" iobench "$place" --source "$WORK/empty" && expect_text 'holds no files'
expect_code 12 "$SHARDWELD" iobench "$WORK/source/a" --size 1MB && expect_text 'Not a directory'
expect_code 8 mpirun -n 3 "$SHARDWELD" iobench "$place" --size 1000TB && expect_text 'free'
expect_code 7 "$SHARDWELD" iobench "$place" --size 1MB --repeats 1 --report "$WORK/empty" && expect_text 'it is a directory'
expect_empty "$place"

# A file system that may not be written, and one that is full. Both need mounts.
if unshare -m true 2>/dev/null; then
    expect_code 12 unshare -m bash -c 'mount -t tmpfs -o ro none "$1" && exec "$2" iobench "$1" --size 1MB' - "$place" "$SHARDWELD"
    expect_text 'Read-only file system'
    # COMMAND in a small file system; the code is its own.
    small='mount -t tmpfs -o size=3m none "$1" && { code=0; "${@:2}" || code=$?; ls -A "$1" >"$LEFT"; exit $code; }'
    export LEFT="$WORK/left"
    expect_code 8 unshare -m bash -c "$small" - "$place" mpirun -n 3 "$SHARDWELD" iobench "$place" --size 2MB
    expect_text 'the output needs 4.00 MB'
    [[ ! -s "$LEFT" ]] || fail "left behind: $(cat "$LEFT")"
    # Filled between the check and the first file: what is called to stripe does it.
    mkdir "$WORK/filling"
    printf '#!/bin/bash\nhead -c 9000000 /dev/zero >"%s/fill"\nexit 0\n' "$place" >"$WORK/filling/lfs"
    chmod +x "$WORK/filling/lfs"
    expect_code 8 unshare -m bash -c "$small" - "$place" env PATH="$WORK/filling:$PATH" \
        mpirun -n 3 "$SHARDWELD" iobench "$place" --size 1MB --stripe 1
    expect_text 'reserve'
    [[ "$(cat "$LEFT")" == fill ]] || fail "left behind: $(cat "$LEFT")"
else
    echo "SKIPPED: mounts are not allowed here: read-only and full file systems were not tried"
fi

# A merge beside the roof: the percentage is the report's own arithmetic.
merge=("$SHARDWELD" merge --local_dir "$fixture/source" --hf_config "$fixture/hf")
for ranks in 1 3; do
    expect_code 0 mpirun -n "$ranks" "${merge[@]}" --target_dir "$WORK/merged$ranks" --roof "$WORK/roof$ranks.json" --report "$WORK/report.json"
    expect_text '% of the roof measured by iobench'
    printf '%s\n' "$(python3 - "$WORK/report.json" "$WORK/roof$ranks.json" <<'PY'
import json, sys
report, roof = (json.load(open(path)) for path in sys.argv[1:])
names = [phase["name"] for phase in report["phases"]]
counted = report["phases"][names.index("create"):names.index("publish") + 1]
seconds = sum(phase["wall_s"] for phase in counted)
written = sum(tensor["bytes"] for tensor in report["tensors"])
speed = 2 * written / 2e9 / seconds  # nothing is cast: as many bytes are read
got = report["roof"]
near = lambda a, b: abs(a - b) <= 1e-9 * abs(b)
ok = near(got["merge_gbs"], speed) and got["copy_gbs"] == roof["roof"]["gbs"] and near(got["percent"], 100 * speed / roof["roof"]["gbs"])
print("equal" if ok and names.index("create") < names.index("execute") else f"report {got}, computed {speed}")
PY
    )" >"$WORK/arithmetic"
    [[ "$(cat "$WORK/arithmetic")" == equal ]] || fail "$(cat "$WORK/arithmetic")"
done
expect_code 0 "${merge[@]}" --target_dir "$WORK/other" --roof "$WORK/roof3.json" --no_fsync && expect_text 'measured with 3 ranks'
expect_text 'with fsync, this merge is without'
expect_code 0 "${merge[@]}" --target_dir "$WORK/plain" --report "$WORK/plain.json"
expect_json "$WORK/plain.json" "r['roof'] is None"
! grep -q roof "$WORK/err" || fail "a roof without --roof"

# Files that are no roof are refused before anything is read.
refused() { # CODE TEXT [LAUNCHER...]: of the file $WORK/bad.json
    expect_code "$1" "${@:3}" "${merge[@]}" --target_dir "$WORK/none" --roof "$WORK/bad.json" && expect_text "$2"
    expect_absent "$WORK/none"
}
refused 3 bad.json mpirun -n 3
for text in '' '[]' '{}' '{"command": "merge", "schema": 1}' '{"command": ["iobench"], "schema": 1}' \
    '{"command": "iobench", "schema": 1}' '{"command": "iobench", "schema": 1, "roof": 7}' \
    '{"command": "iobench", "schema": 1, "roof": {"gbs": 0}, "ranks": 1, "fsync": true}' \
    '{"command": "iobench", "schema": 1, "roof": {"gbs": "2"}, "ranks": 1, "fsync": true}' \
    '{"command": "iobench", "schema": 1, "roof": {"gbs": 1e999}, "ranks": 1, "fsync": true}' \
    '{"command": "iobench", "schema": 1, "roof": {"gbs": 2}, "ranks": 1}'; do
    echo "$text" >"$WORK/bad.json"
    refused 4 'is not a report of iobench'
done
echo '{"command": "iobench", "schema": 2}' >"$WORK/bad.json"
refused 5 'another schema'

# --stripe: an lfs that notes its arguments and what is in the directory when it is called.
lfs() { # TEXT: makes it
    mkdir -p "$WORK/bin"
    printf '#!/bin/bash\n%s\n' "$1" >"$WORK/bin/lfs"
    chmod +x "$WORK/bin/lfs"
}
striped=(env PATH="$WORK/bin:$PATH" "${merge[@]}" --target_dir "$WORK/striped" --overwrite)
lfs "printf '%s\n' \"\$@\" >$WORK/arguments; ls -A \"\${@: -1}\" >$WORK/listed"
expect_code 0 env PATH="$WORK/bin:$PATH" mpirun -n 3 "${striped[@]:2}" --stripe 4,16MiB
printf '%s\n' setstripe -c 4 -S 16777216 "$(realpath "$WORK")/.striped.shardweld-partial" | cmp -s - "$WORK/arguments" ||
    fail "lfs got: $(tr '\n' ' ' <"$WORK/arguments")"
[[ ! -s "$WORK/listed" ]] || fail "files were there before the striping: $(cat "$WORK/listed")"
cmp -s "$WORK/striped/model.safetensors" "$WORK/plain/model.safetensors" || fail "striping changed the output"
expect_code 0 "${striped[@]}" --stripe all
printf '%s\n' setstripe -c -1 "$(realpath "$WORK")/.striped.shardweld-partial" | cmp -s - "$WORK/arguments" || fail "all: $(cat "$WORK/arguments")"
expect_code 0 env PATH="$WORK/bin:$PATH" "$SHARDWELD" iobench "$place" --size 1MB --repeats 1 --stripe 2
grep -q "^$(realpath "$place")/.shardweld-iobench-" "$WORK/arguments" || fail "iobench: $(cat "$WORK/arguments")"
rm -rf "$WORK/striped"
lfs 'echo "error on ioctl 0x4008669a for x (3): stripe already set"; echo "setstripe: Inappropriate ioctl for device" >&2; exit 25'
expect_code 5 "${striped[@]}" --stripe 4 && expect_text 'code 25 (setstripe: Inappropriate ioctl for device)'
expect_absent "$WORK/striped"
expect_absent "$WORK/.striped.shardweld-partial"
lfs 'kill -9 $$'
expect_code 5 "${striped[@]}" --stripe 4 && expect_text 'ended by a signal'
rm "$WORK/bin/lfs"
if ! command -v lfs >/dev/null; then
    expect_code 5 "${striped[@]}" --stripe 4 && expect_text 'lfs, which is not on PATH'
    expect_absent "$WORK/striped"
fi
for text in 0 x 4, 4,1 4,100KiB 4,4GiB 4,64KiB,1 2001 -2 ''; do
    expect_code 2 "${merge[@]}" --target_dir "$WORK/none" "--stripe=$text"
done
expect_absent "$WORK/none"
# Nobody reads what it prints: nothing of it stays.
mkdir "$WORK/unread"
expect_unread 7 "$SHARDWELD" iobench "$WORK/unread" --size 1MB --repeats 1
[[ -z "$(ls -A "$WORK/unread")" ]] || fail "iobench without a reader leaves $(ls -A "$WORK/unread")"
finish
