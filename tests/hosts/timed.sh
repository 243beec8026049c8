# The command line of $TIMED, with a rank on each host: scripts/bench.sh times it, however long it takes.
eval "timed=($TIMED)"
"$HERE/mpirun.sh" "$(ranks_each 1)" "${timed[@]}" || fail "exit code $?: ${timed[*]}"
