#!/usr/bin/env bash
# Merges that are stopped or killed, and go on: by signals, with other ranks and the other strategy.
# Usage: resume_test.sh SHARDWELD TESTS-DIR (make_checkpoint lies beside the program)
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/resume_lib.sh"
make_big

eventually_reads_back() {
    local wait
    for ((wait = 0; wait < 100; ++wait)); do
        ! grep -q "continuing an earlier merge" "$WORK/err" || return 0
        sleep 0.1
    done
    fail "no run that reads back: $(<"$WORK/err")"
}

# Signals to the ranks, or passed on by the launcher; one rank is enough, under either strategy.
for case in "USR1 ranks direct" "USR2 launcher collective" "TERM one direct" "USR1 one collective" "TERM ranks collective"; do
    read -r signal who strategy <<<"$case"
    merge_of big 3 "${SLOW[@]}" --strategy "$strategy"
    signalled "$signal" "$who" 11 50
    expect_text "ed by SIG$signal"
    expect_text "are kept in $WORK/.merged.shardweld-partial"
    expect_text "the same command continues from there"
    merge_of big 3 --no_fsync --strategy "$strategy"
    resumed 20
    expect_text "reused "
done

# Without a launcher, as in an interactive session.
for signal in INT USR2; do
    merge_of big 0 "${SLOW[@]}"
    signalled "$signal" ranks 11 50
    merge_of big 0 --no_fsync
    resumed 20
done

# Killed: the code is the system's or the launcher's, and what was written down is there.
merge_of big 3 "${SLOW[@]}"
signalled KILL one 137 100
merge_of big 3 --no_fsync
resumed 40
merge_of big 0 "${SLOW[@]}" --strategy direct
signalled KILL ranks 137 150
merge_of big 0 --no_fsync
resumed 70

# What a run that was stopped has read back is not read again, as long as nobody has touched the files; else it is.
for touched in no yes; do
    stopped
    merge_of big 2 --no_fsync --bw_limit 15MB
    "${command[@]}" >"$WORK/out" 2>"$WORK/err" &
    job=$!
    eventually_reads_back
    sleep 1
    kill -USR2 "$job"
    ended 11
    [[ $touched == no ]] || flip "$WORK/.merged.shardweld-partial/model.safetensors" 9000000
    merge_of big 3 --no_fsync
    resumed 20
    again="$(reported resume bytes_read_back_earlier)"
    if [[ $touched == no ]]; then
        ((again > 5000000)) || fail "$again bytes were not read again"
    else
        ((again == 0 && $(reported resume bytes_redone) > 0)) || fail "files that were touched: $again bytes were not read again"
    fi
done

# With other ranks and the other strategy, and more than once.
stopped --strategy direct
merge_of big 5 --no_fsync --strategy collective
resumed 20
stopped --strategy collective
merge_of big 1 --no_fsync --strategy direct
resumed 20
stopped
for ranks in 3 1; do
    before="$(blocks)"
    merge_of big "$ranks" "${SLOW[@]}" --resume
    signalled USR1 ranks 11 $((before + 20))
done
merge_of big 4
resumed 40

# HDF5: the files stay where the library put the bytes. Read back, they give the same model.
if [[ -e "$(dirname "$SHARDWELD")/shardweld_hdf5.so" ]]; then
    for who in "USR1 ranks 11" "KILL one 137"; do
        read -r signal who code <<<"$who"
        merge_of big 2 "${SLOW[@]}" --output_format hdf5
        signalled "$signal" "$who" "$code" 50
        merge_of big 3 --no_fsync --output_format hdf5 --resume --report "$WORK/report.json"
        expect_code 0 "${command[@]}"
        python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["resume"]["bytes_reused"] < 40e6)' "$WORK/report.json" ||
            fail "hdf5: little was reused"
        mv "$WORK/merged" "$WORK/hdf5"
        expect_code 0 "$SHARDWELD" merge --backend hdf5 --local_dir "$WORK/hdf5" --target_dir "$WORK/back" --no_fsync -q
        cmp -s "$WORK/back/model.safetensors" "$WORK/reference/model.safetensors" || fail "hdf5: another model after $signal"
        rm -rf "$WORK/hdf5" "$WORK/back"
    done
else
    echo "SKIPPED in part: built without HDF5"
fi

# Many files, cut at odd places; small rounds and a cast; and what is synced goes on from what was not.
options=(--max_shard_size 16MB --memory_limit 2MiB --dtype fp32)
merge_of big 3 "${options[@]}" --no_fsync -q --report "$WORK/reference.json"
expect_code 0 "${command[@]}"
rm -rf "$WORK/reference" && mv "$WORK/merged" "$WORK/reference"
merge_of big 3 "${options[@]}" "${SLOW[@]}"
signalled KILL one 137 100
merge_of big 2 "${options[@]}"
resumed 20
finish
