#!/usr/bin/env bash
# What a merge does not resume, or only in part: changed inputs and options, damaged blocks, torn journals.
# Usage: resume_refused_test.sh SHARDWELD TESTS-DIR (make_checkpoint lies beside the program)
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/resume_lib.sh"
make_big
partial="$WORK/.merged.shardweld-partial"
shard="$(find "$WORK/big/source" -name 'model_optim_rng.pt' | sort | head -1)"

# refused CODE TEXT [options]: --resume says why not, and leaves everything as it was.
refused() {
    local code="$1" text="$2" before
    shift 2
    before="$(sum_of "$partial")"
    merge_of big 2 --no_fsync --resume "$@"
    expect_code "$code" "${command[@]}"
    expect_text "cannot continue the earlier merge: "
    expect_text "$text"
    expect_text "start from the beginning with --restart, which removes $partial"
    expect_absent "$WORK/merged"
    [[ "$(sum_of "$partial")" == "$before" ]] || fail "a refusal changed the partial directory"
}

# Options that lead to another output, and less strict checks.
stopped
refused 6 "it began without --dtype fp32" --dtype fp32
refused 6 "it began without --max_shard_size 100MB" --max_shard_size 100MB
refused 6 "it began with --replicas auto, this is --replicas verify" --replicas verify

# Before any metadata is read: a shard that ends too early is not even looked at.
cp -p "$shard" "$WORK/shard"
truncate -s 100 "$shard"
refused 6 "it began with --replicas auto, this is --replicas verify" --replicas verify
cp -p "$WORK/shard" "$shard"

# Inputs.
cp -p "$shard" "$WORK/shard"
touch -d '2001-02-03' "$shard"
refused 6 "the input ${shard#"$WORK/big/source/iter_0000001/"} was written again since this merge began"
cp -p "$WORK/shard" "$shard"

# Other bytes with another checksum, of the same size and time.
python3 - "$shard" <<'PYTHON'
import os, struct, sys, zipfile, zlib
path = sys.argv[1]
status = os.stat(path)
with zipfile.ZipFile(path) as archive:
    record = max(archive.infolist(), key=lambda info: info.file_size)
    data, at = bytearray(archive.read(record)), archive.start_dir
data[0] ^= 1
with open(path, "r+b") as file:
    file.seek(record.header_offset + 26)
    names = sum(struct.unpack("<HH", file.read(4)))
    file.seek(record.header_offset + 30 + names)
    file.write(data[:1])
    while True:
        file.seek(at)
        header = file.read(46)
        name, extra, comment = struct.unpack("<HHH", header[28:34])
        if file.read(name).decode() == record.filename:
            break
        at += 46 + name + extra + comment
    file.seek(at + 16)
    file.write(struct.pack("<I", zlib.crc32(data)))
os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
PYTHON
merge_of big 2 --no_fsync --resume
expect_code 6 "${command[@]}"
expect_text "its serialization_id ends in"
expect_absent "$WORK/merged"
cp -p "$WORK/shard" "$shard"

# Work that others can write.
chmod 777 "$partial"
refused 12 "is writable by others (mode 0777)"
chmod 755 "$partial"
if ((EUID == 0)); then
    chown 65534 "$partial/journal"
    refused 12 "$partial/journal belongs to user 65534, not to user 0 who runs this"
    chown 0 "$partial/journal"
fi

# A damaged header, and none.
cp -p "$partial/journal/header.json" "$WORK/header.json"
echo '{"schema": 2}' >"$partial/journal/header.json"
refused 12 "header.json is damaged"
head -c 40 "$WORK/header.json" >"$partial/journal/header.json"
refused 12 "header.json is damaged: it is not JSON"
echo '{"schema": 1}' >"$partial/journal/header.json"
refused 12 "header.json is of another version of shardweld"
rm "$partial/journal/header.json"
refused 12 "header.json cannot be read"
sed 's/"tool": "/&older /' "$WORK/header.json" >"$partial/journal/header.json"
refused 12 "began, this is"
cp -p "$WORK/header.json" "$partial/journal/header.json"

# After all that, less strict replicas are fine.
merge_of big 2 --no_fsync --replicas trust
resumed 20

# Bytes of two blocks that are not what was written down are written again; a part of a record, and one that is damaged, say nothing.
stopped --strategy direct
journal="$(ls "$partial"/journal/1-0)"
records="$(($(stat -c %s "$journal") / 40))"
flip "$partial/model.safetensors" 700000
flip "$partial/model.safetensors" 9000000
flip "$journal" $((40 * (records / 2) + 20))
truncate -s -7 "$journal"
merge_of big 3 --no_fsync
resumed 20
expect_text "that an earlier run had written are damaged and will be written again"
(($(reported resume bytes_redone) > 1000000 && $(reported resume bytes_redone) <= 2 << 20)) || fail "redone: $(reported resume bytes_redone)"

# A file that is gone is made again.
stopped
rm "$partial/model.safetensors"
echo stale >"$partial/tokenizer.json"
merge_of big 2 --no_fsync --report "$WORK/report.json" --resume
expect_code 0 "${command[@]}"
diff -r -x shardweld_report.json "$WORK/reference" "$WORK/merged" >/dev/null || fail "another output without the file"
(($(reported resume bytes_reused) == 0)) || fail "reused what was gone"
rm -rf "$WORK/merged"

# Work that fits is continued without being asked for, and work that does not is refused; --restart removes it, and says so.
stopped
merge_of big 3 --no_fsync --report "$WORK/report.json"
expect_code 0 "${command[@]}"
expect_text "continuing an earlier merge: "
diff -r -x shardweld_report.json "$WORK/reference" "$WORK/merged" >/dev/null || fail "another output"
(($(reported resume bytes_reused) > 0)) || fail "nothing was reused"
rm -rf "$WORK/merged"
stopped
before="$(sum_of "$partial")"
merge_of big 2 --no_fsync --dtype fp32
expect_code 6 "${command[@]}"
expect_text "it began without --dtype fp32"
expect_text "start from the beginning with --restart, which removes $partial"
[[ "$(sum_of "$partial")" == "$before" ]] || fail "a refusal changed the partial directory"
expect_absent "$WORK/merged"
merge_of big 2 --no_fsync --dtype fp32 --restart
expect_code 0 "${command[@]}"
expect_text "removed $partial, left by a run that did not finish, with what it had written (--restart)"
rm -rf "$WORK/merged"

# Nothing to resume: it starts, and says so where --resume expects something.
merge_of big 2 --no_fsync --resume
expect_code 0 "${command[@]}"
expect_text "nothing to resume for $WORK/merged: starting from the beginning"
finish
