#!/usr/bin/env bash
# CRC-32 of torch's records: one flipped bit of what is used ends a merge, whoever reads it, in whatever parts and for whatever. What is compared,
# and what describes the tensors: tests/cases/check_crc.txt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/resume_lib.sh"
data="$TESTS/data"
report="$WORK/report.json"

# is WHAT FOUND EXPECTED
is() {
    [[ "$2" == "$3" ]] || fail "$1: $2, expected $3"
}

# records DIR: "FILE OFFSET BYTES NAME" of each record with data below it, in archives that are files or lie in one.
records() {
    python3 - "$1" <<'P'
import io, pathlib, struct, sys, zipfile
for path in sorted(p for p in pathlib.Path(sys.argv[1]).rglob("*") if p.suffix in (".pt", ".bin", ".distcp")):
    blob = path.read_bytes()
    end = blob.find(b"PK\5\6")
    while end >= 0:
        size, offset = struct.unpack("<II", blob[end + 12:end + 20])
        directory_end = end - 76 if blob[end - 20:end - 16] == b"PK\6\7" else end
        begin = directory_end - size - offset
        for entry in zipfile.ZipFile(io.BytesIO(blob[begin:end + 22])).infolist():
            if "/data/" in entry.filename and entry.file_size:
                at = begin + entry.header_offset
                name, extra = struct.unpack("<HH", blob[at + 26:at + 30])
                print(path, at + 30 + name + extra, entry.file_size, entry.filename)
        end = blob.find(b"PK\5\6", end + 1)
P
}

# Of each way of storing tensors some records, one bit each: by one rank, and by three with either strategy.
ways=("" "mpirun -n 3" "mpirun -n 4")
strategies=("--strategy direct" "--strategy direct" "--strategy collective")
# all_found CASE N [options]: of N records of the case.
all_found() {
    local case="$1" n="$2" listed i file at size way=0 number=0 source
    shift 2
    rm -rf "$WORK/copy" "$WORK/good"
    cp -r "$data/$case" "$WORK/copy"
    source="$WORK/copy/source"
    [[ -d "$source" ]] || source="$WORK/copy"
    [[ ! -d "$WORK/copy/hf" ]] || set -- "$@" --hf_config "$WORK/copy/hf"
    expect_code 0 mpirun -n 3 "$SHARDWELD" merge --local_dir "$source" --target_dir "$WORK/good" --report "$report" -q "$@" || return
    is "$case: records that were read in part only" "$(reported crc unchecked_records)" 0
    mapfile -t listed < <(records "$source")
    ((${#listed[@]} > 1 && $(reported crc records) > 1)) || fail "$case: no records"
    for ((i = 0; i < n; ++i)); do
        read -r file at size _ <<<"${listed[i * (${#listed[@]} - 1) / (n - 1)]}"
        at=$((at + (i * 7919 + size / 2) % size))
        flip "$file" "$at"
        rm -rf "$WORK/none"
        code=0
        timeout 180 ${ways[way]} "$SHARDWELD" merge --local_dir "$source" --target_dir "$WORK/none" ${strategies[way]} -q "$@" 2>"$WORK/err" || code=$?
        if ((code == 0)); then
            # A copy that its checksum says is equal is not read.
            diff -r -x shardweld_report.json "$WORK/good" "$WORK/none" >/dev/null || fail "$case: another model from a flipped bit at $at of $file"
        else
            number=$((number + 1))
            ((code == 4)) || fail "$case: code $code for a flipped bit at $at of $file"
            expect_text "/$(basename "$file")"
            expect_text "record "
            expect_text ", tensor "
            expect_text "has the CRC-32 "
            expect_absent "$WORK/none"
        fi
        flip "$file" "$at"
        way=$(((way + 1) % 3))
    done
    ((3 * number >= n)) || fail "$case: only $number of $n bits were found"
}

all_found megatron/llama-tp4-legacy-bf16 4
all_found megatron/llama-mha-views-tp2-legacy-made 3
all_found megatron/qwen2-tp2-pp2-torchdist-bf16 3
all_found torch/fsdp1_w2_fp32_llama 3
all_found torch/fsdp2_w12_bf16_qwen2 3
all_found torch/dcp_w2_bf16_qwen2 3
all_found torch/hsdp2_w4_bf16_llama 3
all_found torch/fsdp2_lora_w2_fp32_qwen2 3 --lora fold
all_found torch/lora_dora_embed_w2 3 --lora fold
all_found hf/qwen2-tied-bin-zip-2-files 3 --backend hf
[[ ! -e "$(dirname "$SHARDWELD")/shardweld_hdf5.so" ]] || all_found torch/fsdp1_w2_fp32_llama 3 --output_format hdf5

# A record that is needed in part is read whole where that costs little: here q of q, k and v, with a bit of another part.
llama="$data/megatron/llama-tp4-legacy-bf16"
rm -rf "$WORK/copy" "$WORK/part"
cp -r "$llama" "$WORK/copy"
part=(--local_dir "$WORK/copy/source" --hf_config "$WORK/copy/hf" --include 'layers\.0\.self_attn\.q_proj' --report "$report" -q)
expect_code 0 mpirun -n 2 "$SHARDWELD" merge "${part[@]}" --target_dir "$WORK/part"
is "records of the part" "$(reported crc records) $(reported crc unchecked_records)" "4 0"
(($(reported crc bytes_read) > 0)) || fail "nothing was read for the checksums alone"
read -r place qkv <<<"$(py "$WORK/part/model.safetensors" "$WORK/copy/source" <<'P'
import pathlib, sys
import edit_safetensors as files
first = next(tensor[2][:64] for name, tensor in files.read(sys.argv[1]).items() if "q_proj" in name)
path = next(p for p in sorted(pathlib.Path(sys.argv[2]).rglob("*.pt")) if first in p.read_bytes())
print(path.read_bytes().index(first), path)
P
)"
size="$(records "$WORK/copy/source" | awk -v at="$place" -v file="$qkv" '$1 == file && $2 <= at && at < $2 + $3 { print $2 + $3 - 1 }')"
flip "$qkv" "$size"
for launcher in "" "mpirun -n 3"; do
    rm -rf "$WORK/none"
    expect_code 4 $launcher "$SHARDWELD" merge "${part[@]}" --target_dir "$WORK/none" && expect_text "has the CRC-32"
    expect_absent "$WORK/none"
    expect_code 0 $launcher "$SHARDWELD" merge "${part[@]}" --target_dir "$WORK/none" --check_crc off
    rm -rf "$WORK/none"
done

# A run that goes on knows what the one before has read, also of records that were read in part; what is still to be read is checked.
make_big
stopped
merge_of big 3 --no_fsync
resumed 10
is "records of a resumed run" "$(reported crc records) $(reported crc unchecked_records)" "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["crc"]["records"], 0)' "$WORK/reference.json")"
for strategy in direct collective; do
    stopped --strategy "$strategy"
    read -r file at size _ <<<"$(records "$WORK/big/source" | tail -1)"
    touch -r "$file" "$WORK/time"
    flip "$file" $((at + size - 1))
    touch -r "$WORK/time" "$file"
    merge_of big 2 --no_fsync --resume
    expect_code 4 "${command[@]}" && expect_text "has the CRC-32"
    expect_absent "$WORK/merged"
    expect_absent "$WORK/.merged.shardweld-partial"
    flip "$file" $((at + size - 1))
    touch -r "$WORK/time" "$file"
done
finish
