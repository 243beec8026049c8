# A watch over three time limits and more, while a run saves: the job goes back into the queue at each, makes every step once, and ends well: idle for longer than a
# run takes.
dcp="$TESTS/data/torch/dcp_w2_bf16_qwen2" run="$HOSTS/run" out="$HOSTS/watched"
mkdir "$run"
submit -w h1 --ntasks-per-node=2 --time=1 --signal=B:USR1@1 "$SCRIPTS/watch.sbatch" "$run" "$out" --hf_config "$dcp/hf" --interval 1 --no_card --idle_exit 60s \
    --stop_before 45s
watched=$job
has_restarted_thrice() {
    (($(field "$watched" Restarts) >= 3))
}
saved=0
while ((saved < 40)) && ! has_restarted_thrice; do
    saved=$((saved + 1))
    mkdir "$run/step-$saved"
    cp "$dcp/source/"*.distcp "$run/step-$saved"
    sleep 5
    cp "$dcp/source/.metadata" "$run/step-$saved"
done
idle=$SECONDS
expect_end "$watched" COMPLETED 0 "a watch over time limits" 180
((SECONDS - idle < 170)) || fail "a watch that is idle for 60 s ends after $((SECONDS - idle)) s"
expect_log "$watched" "of --idle_exit 60s" "a watch over time limits"
echo "watched: $(field "$watched" Restarts) restarts, $saved steps"
(($(field "$watched" Restarts) >= 3)) || fail "a watch over time limits: $(field "$watched" Restarts) restarts"
"$SHARDWELD" merge "$dcp/source" "$HOSTS/once" --hf_config "$dcp/hf" -q --no_card
for ((i = 1; i <= saved; ++i)); do
    [[ "$(sum_of "$out/step-$i")" == "$(sum_of "$HOSTS/once")" ]] || fail "step-$i is not what a merge writes"
    [[ "$(grep -c "\"made\",\"step\":\"step-$i\"" "$out/watch.jsonl")" == 1 ]] || fail "step-$i was not made once"
done
rm -rf "$run" "$out" "$HOSTS/once"
