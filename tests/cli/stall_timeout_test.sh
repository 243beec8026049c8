#!/usr/bin/env bash
# Long phases are not taken for a hang while they go forward, and are left when the merge is told to stop: metadata, checksums of the input, norms,
# making files, copying, checksums of the output. Calls are made slow by tests/faults/inject.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset OMPI_MCA_odls_base_sigkill_timeout  # ranks that are stopped need their second
data="$TESTS/data"
place="$WORK/place"
counts="$WORK/counts"

# slowed INPUT RANKS FAULTS [options]: sets $command, a merge of INPUT into $place/model in which calls are slow.
slowed() {
    local input="$1" ranks="$2" faults="$3"
    shift 3
    rm -rf "$place" "$counts"
    mkdir "$place"
    faults_at "${input%/source}" "$place" || exit 77
    command=("${faulty[@]}" "$faults" "$SHARDWELD" merge --local_dir "$input" --target_dir "$place/model" -q --no_fsync "$@")
    ((ranks == 0)) || command=(mpirun -n "$ranks" "${command[@]}")
}

# struck PHASE SIDE CALL: how many calls of all ranks were slow.
struck() {
    cat "$counts"/struck.* 2>/dev/null | grep -cP "^$1\t$2\t$3\t"
}

# took_long PHASE SIDE CALL MILLISECONDS RANKS: the phase took its slowest rank more than the three seconds that --stall_timeout allowed.
took_long() {
    local n
    n="$(struck "$1" "$2" "$3")"
    ((n * $4 > 3000 * ($5 > 1 ? $5 : 1))) || fail "with $5 ranks only $n calls of $4 ms were met: $1 $2 $3"
}

# More files beside the weights than the fixture has, so that copying them takes a while.
cp -r "$data/megatron_more/llama-tp12-legacy" "$WORK/legacy"
for i in $(seq 12); do
    echo "{}" >"$WORK/legacy/hf/tokenizer_$i.json"
done
for ranks in 0 2; do
    ((ranks == 0)) && slower=1 || slower=2
    slowed "$WORK/legacy/source" "$ranks" "call=read,side=input,phase=bind,do=slow:$((60 * slower)),times=0,nth=1;\
call=reserve,side=output,phase=create,do=slow:$((350 * slower)),times=0,nth=1;\
call=write,side=output,phase=publish,do=slow:250,times=0,nth=1;\
call=read,side=output,phase=publish,do=slow:$((200 * slower)),times=0,nth=1" \
        --hf_config "$WORK/legacy/hf" --max_shard_size 15KB --check_crc --sha256 --report "$WORK/report.json" --stall_timeout 3
    expect_code 0 "${command[@]}"
    took_long bind input read $((60 * slower)) "$ranks"
    took_long create output reserve $((350 * slower)) "$ranks"
    took_long publish output write 250 0
    took_long publish output read $((200 * slower)) "$ranks"
done

dora="$data/torch/lora_dora_embed_w2/source"
slowed "$dora" 0 "call=read,side=output,phase=execute,do=slow:400,times=9,nth=1" --lora fold --stall_timeout 3
expect_code 0 "${command[@]}"
took_long execute output read 400 0

# told_to_stop MOST PHASE SIDE CALL TEXT: starts $command and tells one of its ranks to stop when three calls were slow. It exits with code 11
# and TEXT before there were MOST of them.
told_to_stop() {
    local launcher target
    timeout 180 "${command[@]}" >"$WORK/out" 2>"$WORK/err" &
    local job=$! code=0
    while (($(struck "$2" "$3" "$4") < 3)) && kill -0 "$job" 2>/dev/null; do sleep 0.05; done
    launcher="$(pgrep -P "$job" | head -1)"
    target="$(pgrep -P "${launcher:-0}" | tail -1)"
    kill -USR1 "${target:-$launcher}" || fail "the merge ended before it could be told to stop"
    wait "$job" || code=$?
    [[ "$code" == 11 ]] || fail "exit code $code, expected 11: $(head -c 600 "$WORK/err")"
    (($(struck "$2" "$3" "$4") < $1)) || fail "the phase went on to its end: $(struck "$2" "$3" "$4") calls"
    expect_text "$5"
    expect_absent "$place/model"
}

fsdp="$data/torch/fsdp1_w2_fp32_llama/source"
for ranks in 0 2; do
    # The metadata takes fewer reads than twenty: what is slow is the pass over the checksums.
    slowed "$fsdp" "$ranks" "call=read,side=input,phase=bind,do=slow:300,times=0,nth=20" --check_crc
    told_to_stop 30 bind input read "stopped by SIGUSR1: nothing was written yet"
    [[ -z "$(ls -A "$place")" ]] || fail "left $(ls -A "$place")"
    slowed "$fsdp" "$ranks" "call=read,side=output,phase=publish,do=slow:600,times=0,nth=1" --max_shard_size 15KB --sha256 --report "$WORK/report.json"
    told_to_stop 11 publish output read "122 kB of 122 kB are kept in $place/.model.shardweld-partial"
    expect_code 0 "$SHARDWELD" merge --local_dir "$fsdp" --target_dir "$place/model" -q --max_shard_size 15KB --sha256 --report "$WORK/report.json" --resume
    expect_code 0 "$SHARDWELD" verify "$place/model" --report "$WORK/report.json" --sha256
done
slowed "$dora" 0 "call=read,side=output,phase=execute,do=slow:600,times=0,nth=1" --lora fold
told_to_stop 9 execute output read "stopped by SIGUSR1"
[[ -z "$(ls -A "$place")" ]] || fail "left $(ls -A "$place")"
finish
