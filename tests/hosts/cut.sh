# A host whose link is cut in the middle: those that are left say which ranks do not answer, and where, before mpirun says anything.
make_big
spread "$big/source" h1 h1 h1 h1 h2 h2 h2
limit_rate 20mbit
rm -rf "$HOSTS/out"

# Once a merge into $HOSTS/out writes tensors; until its message is there: mpirun cannot end ranks that it does not reach.
cut_link_of() { # HOST
    local wait
    for ((wait = 0; wait < 200; ++wait)); do
        [[ -z "$(find "$HOSTS/.out.shardweld-partial" -name 'model*.safetensors' 2>/dev/null)" ]] || break
        sleep 0.05
    done
    ip link set "to-$1" down
    for ((wait = 0; wait < 300; ++wait)); do
        ! grep -q "no progress" "$WORK/err" || break
        sleep 0.1
    done
    ip link set "to-$1" up
}

cut_link_of h2 &
cutter=$!
MPIRUN_ENDS_RANKS=1 expect_code 10 "$HERE/mpirun.sh" "$(ranks_each 2)" merge --local_dir "$LOCAL/source" --hf_config "$big/hf" \
    --target_dir "$HOSTS/out" -q --stall_timeout 4s
wait $cutter
limit_rate none
expect_text "rank 0 (h1): no progress for 4 s (--stall_timeout) while "
expect_text "no answer (UDP) from ranks 2, 3 (h2), last heard of at "
expect_absent "$HOSTS/out"
rm -rf "$HOSTS"/.out.*
