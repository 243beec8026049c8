# A rank that is killed in the middle ends the whole job, nothing stands under the target's name, and the next merge succeeds.
make_big
spread "$big/source" h1 h1 h1 h1 h2 h2 h2
limit_rate 20mbit
rm -rf "$HOSTS/out"
options=(--local_dir "$LOCAL/source" --hf_config "$big/hf" --target_dir "$HOSTS/out" -q)

kill_ranks_on h2 &
killer=$!
MPIRUN_ENDS_RANKS=1 expect_code 137 "$HERE/mpirun.sh" "$(ranks_each 1)" merge "${options[@]}"
wait $killer
expect_absent "$HOSTS/out"
limit_rate none
expect_code 0 "$HERE/mpirun.sh" "$(ranks_each 1)" merge "${options[@]}"
expect_sum "$big_sum" "after a killed rank"
