#!/usr/bin/env bash
# Targets without rights or room, or in another run's hands, and what a failed run leaves: nothing. With content: tests/cases/errors_target.txt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/errors.sh"
legacy=megatron/llama-tp4-legacy-bf16

start "$legacy"

# Rights: as root nothing is refused, so another user runs it.
chmod 755 "$WORK" "$place"
target="$place/model"
if ((EUID == 0)) && setpriv --reuid=65534 --regid=65534 --clear-groups test -r "$iter/mp_rank_00/model_optim_rng.pt" -a -x "$SHARDWELD"; then
    merge_copy 0
    expect_code 7 setpriv --reuid=65534 --regid=65534 --clear-groups "${merging[@]}"
    expect_text "$place"
    chmod 777 "$place"
    expect_code 0 setpriv --reuid=65534 --regid=65534 --clear-groups "${merging[@]}"
    rm -rf "$target"
    chmod 000 "$iter/mp_rank_01/model_optim_rng.pt"
    expect_code 7 setpriv --reuid=65534 --regid=65534 --clear-groups "${merging[@]}"
    expect_text "mp_rank_01/model_optim_rng.pt"
    [[ -z "$(ls -A "$place")" ]] || fail "a run without rights left $(ls -A "$place")"
    chmod 644 "$iter/mp_rank_01/model_optim_rng.pt"
else
    echo "SKIPPED: cannot run as another user that may read the program and the checkpoint"
fi

# Space.
if unshare --mount true 2>/dev/null; then
    merge_copy 0
    expect_code 8 unshare --mount bash -c "mount -t tmpfs -o size=128k none '$place' && ${merging[*]@Q}; code=\$?; [[ -z \"\$(ls -A '$place')\" ]] || exit 99; exit \$code"
    expect_text "$place"
    expect_text "free"
    expect_code 8 unshare --mount bash -c "mount -t tmpfs -o size=9m,nr_inodes=3 none '$place' && ${merging[*]@Q}; code=\$?; [[ -z \"\$(ls -A '$place')\" ]] || exit 99; exit \$code"
    expect_text "inode"
else
    echo "SKIPPED: no right to make a mount namespace"
fi

# A limit on the size of files, met in the middle of writing.
merge_copy 0
expect_code 8 mpirun -n 3 bash -c "trap '' XFSZ; ulimit -f 300; ${merging[*]@Q}"
expect_text "model.safetensors"
[[ -z "$(ls -A "$place")" ]] || fail "a full file left $(ls -A "$place")"

# Another run in the same place: its lock is held, whoever made it.
merge_copy 0
exec 9>"$place/.model.shardweld-lock"
flock -x 9
expect_code 15 "${merging[@]}"
expect_text "another run is writing"
expect_text "$target"
exec 9>&-
expect_code 0 "${merging[@]}"
finish
