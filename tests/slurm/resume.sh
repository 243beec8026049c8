# A job that meets its time limit goes back into the queue and resumes; a job that waits for it waits until it is done.
make_big
# A job's first run is slow, as any option may be another one when it goes on.
mkdir "$HOSTS/slow"
cat >"$HOSTS/slow/shardweld" <<PROGRAM
#!/bin/bash
((\${SLURM_RESTART_COUNT:-0} > 0)) || set -- "\$@" --bw_limit 4MB
exec "$SHARDWELD" "\$@"
PROGRAM
chmod +x "$HOSTS/slow/shardweld"
merging=("$SCRIPTS/merge.sbatch" "$big/source")
with=(--hf_config "$big/hf")
normal_path="$PATH"
PATH="$HOSTS/slow:$PATH"

# A node dies under a job of two nodes.
submit --nodes=2 --ntasks-per-node=2 "${merging[@]}" "$HOSTS/lost" "${with[@]}"
lost=$job
# Told by Slurm (some time within half a minute of when it was asked to), by the job's end, and by an operator who wants the node.
submit -w h1 --time=1 --signal=USR1@55 "${merging[@]}" "$HOSTS/told" "${with[@]}"
told=$job
submit -w h1 --time=1 --signal=USR1@1 "${merging[@]}" "$HOSTS/ended" "${with[@]}" --stop_before 45s
ended=$job
submit -w h1 "${merging[@]}" "$HOSTS/requeued" "${with[@]}"
requeued=$job
PATH="$normal_path"
# Gets no further.
submit -w h1 "${merging[@]}" "$HOSTS/stuck" "${with[@]}" --stop_at +0s
stuck=$job
submit -w h1 --dependency="afterok:$told" "$SCRIPTS/test.sbatch" "$big/source" "$HOSTS/told" --hf_config "$big/hf"
tested=$job
eventually 30 writes_into "$HOSTS/requeued"
sleep 2
scontrol requeue "$requeued"
eventually 30 keeps_some "$HOSTS/lost"
lose_node h2
sleep 1
find_node h2
for name in requeued lost ended told; do
    expect_end "${!name}" COMPLETED 0 "$name" 120 || continue
    expect_same "$big_sum" "$HOSTS/$name" "$name"
    expect_report "$HOSTS/$name.report.json" 'report["resume"]["bytes_reused"] > 0' "$name"
    (($(field "${!name}" Restarts) > 0)) || fail "$name: the job was never requeued"
    echo "$name: $(field "${!name}" Restarts) restarts"
done
expect_end "$stuck" FAILED 11 "a job that gets no further" && {
    expect_log "$stuck" "run 2 kept nothing that the one before it had not" "a job that gets no further"
    [[ "$(field "$stuck" Restarts)" == 1 ]] || fail "a job that gets no further: $(field "$stuck" Restarts) restarts"
}
expect_end "$tested" COMPLETED 0 "the test behind a resumed merge"

# Queued again when all was done: the model that is there is verified.
restarted() {
    (($(field "$requeued" Restarts) > $1))
}
requeue_done() {
    local restarts
    restarts="$(field "$requeued" Restarts)"
    scontrol requeue "$requeued"
    eventually 60 restarted "$restarts"
    expect_end "$requeued" "$@" 120
}
requeue_done COMPLETED 0 "a job queued again behind its merge"
expect_same "$big_sum" "$HOSTS/requeued" "a target that was done"
python3 - "$HOSTS/requeued" <<'PY'
import pathlib, sys
path = min(pathlib.Path(sys.argv[1]).glob("*.safetensors"))
with open(path, "r+b") as file:
    file.seek(-1, 2)
    last = file.read(1)[0]
    file.seek(-1, 2)
    file.write(bytes([last ^ 64]))
PY
requeue_done FAILED 13 "a job queued again behind another model"
rm -rf "$HOSTS"/{told,ended,requeued,lost,slow,.stuck*}
