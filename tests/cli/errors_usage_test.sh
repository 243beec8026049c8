#!/usr/bin/env bash
# Command lines and targets that are refused, and what a failed run leaves: nothing.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/errors.sh"
legacy=megatron/llama-tp4-legacy-bf16
start "$legacy"

# said NAME CODE TEXT... -- ARGUMENTS: without mpirun, one error line.
said() {
    local name="$1" code="$2" texts=() text
    shift 2
    while [[ "$1" != -- ]]; do
        texts+=("$1")
        shift
    done
    shift
    expect_code "$code" "$SHARDWELD" "$@" || echo "    (said: $name)"
    [[ -z "${SHARDWELD_SHOW:-}" ]] || echo "$name [$code]: $(cat "$WORK/err")"
    for text in "${texts[@]}"; do
        expect_text "$text" || echo "    (said: $name)"
    done
    [[ "$(grep -c '^error:' "$WORK/err")" == 1 ]] || fail "$name: $(grep -c '^error:' "$WORK/err") error lines"
    [[ ! -s "$WORK/out" ]] || fail "$name writes to standard output"
}

# The command line.
said "no command" 2 "no command" --
said "unknown command" 2 "mrege" "merge" -- mrege
said "a test without a reference" 2 "--test_hf_dir" -- test --local_dir a
said "later option" 5 "--ref_model_path" -- merge --local_dir a --ref_model_path b
said "no weights" 2 "--weights" "half" "master" -- merge --local_dir a --weights half
said "unknown option" 2 "--locl_dir" "--local_dir" -- merge --locl_dir a
said "repeated option" 2 "--local_dir" "twice" -- merge --local_dir a --local_dir b
said "no checkpoint" 2 "no directory is given" -- merge
said "no target" 2 "no target is given" "shardweld merge a OUT" -- merge a
said "no command, but directories" 2 "did you mean shardweld merge ./a b?" -- ./a b
said "another tool's option" 2 "did you mean --overwrite?" -- merge a b --force
said "a command that plans" 2 "shardweld plan takes the same options" -- merge a b --dry-run
said "another tool's encoding" 2 "unknown encoding 'q8_0'" "did you mean gguf:q8_0?" -- merge a b --quantize q8_0
said "three directories" 2 "--average a b c" -- merge a b c
said "an option without its value" 2 "--local_dir" -- merge --local_dir
said "a flag with a value" 2 "--overwrite" -- merge --local_dir a --overwrite=yes
said "no dtype" 2 "--dtype" "int4" "bf16, fp16 or fp32" "did you mean --quantize w4a16?" -- merge --local_dir a --dtype int4
said "no size" 2 "--max_shard_size" "-5GB" -- merge --local_dir a --max_shard_size=-5GB
said "size of nothing" 2 "--memory_limit" -- merge --local_dir a --memory_limit 0
said "too little memory" 2 "--memory_limit" "1000KiB" "at least 1MiB" -- merge --local_dir a --memory_limit 1000KiB
said "size beyond 64 bits" 2 "--memory_limit" -- merge --local_dir a --memory_limit 99999999999999999999GB
said "no number" 2 "--iteration" "ten" -- merge --local_dir a --iteration ten
said "no strategy" 2 "--strategy" "fast" "collective" -- merge --local_dir a --strategy fast
said "no backend" 2 "--backend" "tape" -- merge --local_dir a --backend tape
said "stray argument" 2 "stray" -- merge a b stray
more=(--dtype int4)
refused "a bad option on three ranks" 2 3 "--dtype"
said "an option that is gone" 2 "--drop_consumed" "make room first" -- merge --local_dir a --drop_consumed yes
said "a store's client that is gone" 2 "--put" "rclone copy" -- merge --local_dir a --put 'cp {} b'
said "sending ahead that is gone" 2 "--stream" "--hf_upload_path" -- merge --local_dir a --stream
said "a measurement that is gone" 2 "iobench" "IOR" -- iobench a
said "a speed that is gone" 2 "--roof" "IOR" -- merge --local_dir a --roof b
said "a level that is gone" 2 "--log_level" "-q" -- merge --local_dir a --log_level error
said "a format that is gone" 2 "gguf" "--quantize gguf:q8_0" -- merge a b --output_format gguf
said "a shell that is gone" 2 "--then_shell" "sh -c" -- watch a b --then true --then_shell
said "a reference's files that are gone" 2 "--layout_like" "--max_shard_size" -- merge --local_dir a --layout_like b
more=(--recipe "$WORK/nowhere.recipe")
refused "a recipe that is not there" 2 0 "--recipe" "nowhere.recipe"
printf 'recipe mine\nextends llama\nmatch @model_type = "llama"\nlet x = ((1\n' >"$WORK/my.recipe"
more=(--recipe "$WORK/my.recipe")
refused "a recipe with a syntax error" 2 3 "my.recipe:4"
more=(--iteration 77)
refused "an iteration that is not there" 3 0 "--iteration 77" "iter_0000010"
more=()

# Ranks that were started with different options end at once; rank 0 has none of these.
apart() {
    local both=("$SHARDWELD" merge --local_dir "$source" "${options[@]}" --target_dir "$WORK/apart" --lora fold)
    expect_code 2 mpirun -n 1 "${both[@]}" : -n 1 "${both[@]}" "$@" && expect_text "ranks 0 and 1 were started with different options"
    expect_absent "$WORK/apart"
}
apart --output_format hdf5
apart --lora_alpha 8
apart --names module
apart --mesh_dim_names fsdp --mesh_shape 2
apart --prefix model
apart --base "$WORK"
apart --trace lm_head.weight
apart --report "$WORK/apart.json"
apart --no_fsync
apart --bogus
both=("$SHARDWELD" diff "$WORK" "$WORK")
for more in "--atol 1" "--rtol 1" --strict_dtype --json; do
    # shellcheck disable=SC2086
    expect_code 2 mpirun -n 1 "${both[@]}" : -n 1 "${both[@]}" $more && expect_text "different options"
done
more=()

# The checkpoint's directory.
source="$WORK/nowhere"
refused "a directory that is not there" 3 3 "$WORK/nowhere"
mkdir "$WORK/empty"
source="$WORK/empty"
refused "an empty directory" 3 0 "$WORK/empty" "which has no files"
source="$hf/config.json"
refused "a file as the checkpoint" 2 0 "config.json is a file"
mkdir "$WORK/gguf"
touch "$WORK/gguf/model-Q4_K_M.gguf"
source="$WORK/gguf"
refused "a layout that is not read" 5 3 "GGUF" "$WORK/gguf"
mkdir -p "$WORK/roles/global_step_10"/{actor,critic}
cp -r "$iter" "$WORK/roles/global_step_10/actor/dist_ckpt"
cp -r "$iter" "$WORK/roles/global_step_10/critic/dist_ckpt"
source="$WORK/roles"
refused "two roles" 2 3 "actor" "critic" "--role"
more=(--role critic)
merge_copy 0 "${more[@]}"
expect_code 0 "${merging[@]}"
rm -rf "$target"
more=()

# The target.
start "$legacy"
mkdir "$WORK/full"
echo old >"$WORK/full/old.safetensors"
target="$WORK/full"
refused "a target with content" 12 3 "$WORK/full" "--overwrite"
[[ "$(ls -A "$WORK/full")" == old.safetensors ]] || fail "the target was touched"
accepted_over() {
    merge_copy 3 --overwrite
    expect_code 0 "${merging[@]}"
    [[ ! -e "$WORK/full/old.safetensors" && -s "$WORK/full/model.safetensors" ]] || fail "--overwrite left $(ls -A "$WORK/full")"
    [[ -z "$(find "$WORK" -maxdepth 1 -name '.full*')" ]] || fail "--overwrite left $(ls -A "$WORK")"
}
before="$(ls -i "$WORK/full/old.safetensors")"
damage flip_record "$iter/mp_rank_01/model_optim_rng.pt" data/11
more=(--overwrite)
refused "--overwrite by a run that fails" 6 3 "mp_rank_01"
[[ "$(ls -i "$WORK/full/old.safetensors")" == "$before" && "$(ls -A "$WORK/full")" == old.safetensors ]] || fail "a failed --overwrite touched the old model"
more=()
start "$legacy"
target="$WORK/full"
accepted_over
start "$legacy"
echo text >"$WORK/file"
target="$WORK/file"
refused "a target that is a file" 12 0 "$WORK/file" "file"
target="$WORK/file/below"
refused "a target below a file" 12 0 "$WORK/file/below" "$WORK/file is a file"
target="$source"
refused "the checkpoint as the target" 12 0 "source"
target="$WORK"
more=(--overwrite)
refused "a target above the checkpoint" 12 0 "contains the input"
target="$hf"
refused "the config's directory as the target" 12 0 "hf"
ln -s "$WORK/nothing" "$WORK/link"
target="$WORK/link"
refused "a link to nothing as the target" 12 0 "link"
more=()
target=""
refused "an empty target" 2 0 "--target_dir"
for path in "$iter" "$hf"; do
    [[ ! -e "$path/merged" ]] || fail "something was written to $path"
done

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

# Launchers that start single processes.
expect_code 10 env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 "$SHARDWELD" merge --local_dir "$source" --target_dir "$target" "${options[@]}"
expect_text "srun --mpi=pmix"
expect_absent "$target"
expect_code 10 env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=2 "$SHARDWELD" merge --local_dir "$source" --target_dir "$target" "${options[@]}"
[[ ! -s "$WORK/err" ]] || fail "rank 2 speaks: $(cat "$WORK/err")"

# Another run in the same place: its lock is held, whoever made it.
merge_copy 0
exec 9>"$place/.model.shardweld-lock"
flock -x 9
expect_code 15 "${merging[@]}"
expect_text "another run is writing"
expect_text "$target"
exec 9>&-
expect_code 0 "${merging[@]}"

# A run that is killed while it writes leaves nothing under the target's name, and the next one is not hindered.
rm -rf "$target"
mkdir "$place/.model.shardweld-partial"
echo left >"$place/.model.shardweld-partial/model.safetensors"
expect_code 0 "${merging[@]}"
[[ "$(ls -A "$place")" == model ]] || fail "the next run left $(ls -A "$place")"
finish
