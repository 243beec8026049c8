# Shards on the nodes' local disks, each on one of them; however the job ends, the disks are empty again.
make_big
export STAGE_DIR="$LOCAL"
declare -A staged=()
stage() { # NAME CHECKPOINT CONFIG [OPTIONS]: the job in ${staged[NAME]}
    submit --ntasks-per-node=2 $([[ $1 != *zarr ]] || echo --nodes=1) "$SCRIPTS/staging.sbatch" "$2" "$HOSTS/staged-$1" --hf_config "$3" "${@:4}"
    staged[$1]=$job
}
nothing_staged() {
    [[ -z "$(all_hosts "find '$LOCAL' -maxdepth 1 -name 'shardweld-*'")" ]]
}

# Files given by links; every kind of file that formats have; jobs that end before their time.
cp -rs "$big/source" "$HOSTS/linked"
# Removing takes its time, as that of large copies does.
mkdir "$HOSTS/slow"
printf '#!/bin/sh\nsleep 2\nexec %s "$@"\n' "$(command -v rm)" >"$HOSTS/slow/rm"
chmod +x "$HOSTS/slow/rm"
for name in late cancelled stopped requeued; do
    PATH="$HOSTS/slow:$PATH" stage $name "$big/source" "$big/hf" --bw_limit 8MB
done
stage good "$HOSTS/linked" "$big/hf"
zarr=megatron/qwen2-tied-tp2-zarr
stage spread "$TESTS/data/$zarr/source" "$TESTS/data/$zarr/hf"
stage bad "$big/source" "$HOSTS/no-such-directory"
accelerate=world/accelerate_fsdp2
kinds=(deepspeed/zero2_w2_tied torch/dcp_hf_w2_bf16_qwen2 $zarr ${accelerate}_ranks)
for kind in "${kinds[@]}"; do
    stage "$kind" "$TESTS/data/$kind/source" "$TESTS/data/$kind/hf"
done
mkdir "$HOSTS/staged-deepspeed" "$HOSTS/staged-megatron" "$HOSTS/staged-torch" "$HOSTS/staged-world"
# A project's directory with all its saves: the newest is staged, and taken for the newest there.
cp -r "$TESTS/data/$accelerate/source" "$HOSTS/project"
cp -r "$HOSTS"/project/checkpoints/checkpoint_{0,10}
rm "$HOSTS"/project/checkpoints/checkpoint_0/pytorch_model_fsdp_0/*.distcp
stage $accelerate "$HOSTS/project" "$TESTS/data/$accelerate/hf"
kinds+=($accelerate)
# What lies elsewhere is read there.
peft=$TESTS/data/peft/qwen3moe-experts
stage based "$peft/adapter" "$peft/base" --base "$peft/base" --lora fold
for name in late cancelled stopped requeued; do
    eventually 60 writes_into "$HOSTS/staged-$name" || fail "$name does not begin"
done
sleep 2
scontrol update JobId="${staged[late]}" EndTime=now+1
scancel "${staged[cancelled]}"
scancel --signal=USR1 "${staged[stopped]}"
scontrol requeue "${staged[requeued]}"

expect_end "${staged[good]}" COMPLETED 0 "staging" && {
    expect_same "$big_sum" "$HOSTS/staged-good" "staging"
    expect_report "$HOSTS/staged-good.report.json" 'hosts == 2 and sent > 0' "staging"
}
expect_end "${staged[bad]}" FAILED 2 "staging without a config"
expect_absent "$HOSTS/staged-bad"
expect_end "${staged[spread]}" FAILED 5 "zarr on two nodes" && expect_log "${staged[spread]}" "take --nodes=1" "zarr on two nodes"
for kind in "${kinds[@]}"; do
    expect_end "${staged[$kind]}" COMPLETED 0 "staging $kind" 120 && same_as_expected "$TESTS/data/$kind" "$HOSTS/staged-$kind"
done
expect_end "${staged[based]}" COMPLETED 0 "staging an adapter" 120 &&
    expect_code 0 python3 "$TESTS/support/compare_safetensors.py" "$HOSTS/staged-based" "$peft/expected/merged"
expect_end "${staged[stopped]}" COMPLETED 0 "staging, stopped" 120 && {
    expect_log "${staged[stopped]}" "code 11 after run 1: queued again" "staging, stopped"
    expect_same "$big_sum" "$HOSTS/staged-stopped" "staging, stopped"
}
expect_end "${staged[cancelled]}" CANCELLED 0 "staging, cancelled"
expect_end "${staged[late]}" TIMEOUT 0 "staging at its time limit"
expect_end "${staged[requeued]}" COMPLETED 0 "staging, queued again" 90 && {
    expect_same "$big_sum" "$HOSTS/staged-requeued" "staging, queued again"
    expect_report "$HOSTS/staged-requeued.report.json" 'report["resume"]["bytes_reused"] > 0' "staging, queued again"
}
eventually 20 nothing_staged || fail "staging leaves $(all_hosts "find '$LOCAL' -maxdepth 1 -name 'shardweld-*'") on local disks"

# Where the disks are, the site has to say.
env -u STAGE_DIR SLURM_CPUS_PER_TASK=1 bash "$SCRIPTS/staging.sbatch" "$big/source" "$HOSTS/staged-nowhere" 2>"$WORK/err"
[[ $? == 2 ]] && expect_text "STAGE_DIR="
rm -rf "$HOSTS"/{,.}staged* "$HOSTS"/{linked,project,slow}
