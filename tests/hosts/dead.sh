# A rank that is killed in the middle ends the whole job, nothing stands under the target's name, and the next merge succeeds.
make_big
spread "$big/source" h1 h1 h1 h1 h2 h2 h2
limit_rate 20mbit
rm -rf "$HOSTS/out"
options=(--local_dir "$LOCAL/source" --hf_config "$big/hf" --target_dir "$HOSTS/out" -q)

kill_rank_on() { # HOST, as soon as tensors are written
    local wait process
    for ((wait = 0; wait < 200; ++wait)); do
        [[ -z "$(find "$HOSTS/.out.shardweld-partial" -name 'model*.safetensors' 2>/dev/null)" ]] || break
        sleep 0.05
    done
    for process in /proc/[0-9]*; do
        [[ "$(<"$process/comm")" == shardweld && "$(readlink "$process/ns/net")" == "$(readlink "/proc/$(<"$HOSTS/$1.pid")/ns/net")" ]] 2>/dev/null &&
            kill -KILL "${process#/proc/}"
    done
}
kill_rank_on h2 &
killer=$!
MPIRUN_ENDS_RANKS=1 expect_code 137 "$HERE/mpirun.sh" "$(ranks_each 1)" merge "${options[@]}"
wait $killer
expect_absent "$HOSTS/out"
limit_rate none
expect_code 0 "$HERE/mpirun.sh" "$(ranks_each 1)" merge "${options[@]}"
expect_sum "$big_sum" "after a killed rank"
