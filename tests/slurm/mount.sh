# A model that each node mounts: the command's code is the job's, and however the job ends, no node has a mount left.
# Nodes of this cluster are one machine: each has a directory of its own in $LOCAL.
llama=torch/fsdp2_w12_bf16_qwen2
mkdir "$HOSTS/mount-tried"
if ! "$SHARDWELD" mount "$TESTS/data/$llama/source" "$HOSTS/mount-tried" -q -- true; then
    echo "SKIPPED: no FUSE here: a job that mounts is not tried"
    return
fi
export MOUNT_DIR="$LOCAL"
expect_code 0 "$SHARDWELD" merge "$TESTS/data/$llama/source" "$HOSTS/mount-merged" -q --no_fsync
nothing_mounted() {
    [[ -z "$(all_hosts "ls -d '$LOCAL'/shardweld-model-*; grep fuse.shardweld /proc/self/mounts")" ]]
}
mounted() { # NAME COMMAND...: the job in $job
    submit --ntasks-per-node=1 "$SCRIPTS/mount.sbatch" "$TESTS/data/$llama/source" -q -- "${@:2}"
    jobs_of[$1]=$job
}
declare -A jobs_of=()
mounted good srun --mpi=none --overlap --ntasks=2 --ntasks-per-node=1 cmp {}/model.safetensors "$HOSTS/mount-merged/model.safetensors"
mounted seven sh -c 'test -s $MODEL/config.json && exit 7'
for name in cancelled late; do
    mounted $name sh -c "touch $HOSTS/mount-$name; exec sleep 100"
done
submit --ntasks-per-node=1 "$SCRIPTS/mount.sbatch" "$HOSTS/no-such-checkpoint" -q -- true
bad=$job
for name in cancelled late; do
    eventually 60 test -e "$HOSTS/mount-$name" || fail "$name does not begin"
done
scontrol update JobId="${jobs_of[late]}" EndTime=now+1
scancel "${jobs_of[cancelled]}"
expect_end "${jobs_of[good]}" COMPLETED 0 "mounts on two nodes"
expect_end "${jobs_of[seven]}" FAILED 7 "a command's code"
expect_end "$bad" FAILED 5 "no mount"
expect_end "${jobs_of[cancelled]}" CANCELLED 143 "mounts, cancelled"
expect_end "${jobs_of[late]}" TIMEOUT 143 "mounts at the time limit" 120
eventually 20 nothing_mounted || fail "mounts are left: $(all_hosts "ls -d '$LOCAL'/shardweld-model-*; grep fuse.shardweld /proc/self/mounts")"
