#!/usr/bin/env bash
# --stripe with a stand-in for Lustre's lfs.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
fixture="$TESTS/data/megatron/llama-tp4-legacy-bf16"
merge=("$SHARDWELD" merge --local_dir "$fixture/source" --hf_config "$fixture/hf")
expect_code 0 "${merge[@]}" --target_dir "$WORK/plain"

# An lfs that notes its arguments and what is in the directory when it is called.
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
finish
