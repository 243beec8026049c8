# Merges on the hosts and what is measured of them: source it after hosts.sh.

make_big() { # sets $big: 0.1 GB by 2 tensor-parallel ranks and 3 stages, and $big_sum: the files that one rank makes of it
    big="$HOSTS/big"
    [[ -z "${big_sum:-}" ]] || return 0
    "$(dirname "$SHARDWELD")/make_checkpoint" "$big" --gb 0.1 --tp 2 --pp 3 >"$WORK/out" 2>&1 || fail "make_checkpoint: $(<"$WORK/out")"
    expect_code 0 "$SHARDWELD" merge --local_dir "$big/source" --hf_config "$big/hf" --target_dir "$HOSTS/one" -q
    big_sum="$(sum_of "$HOSTS/one")"
    big_bytes="$(bytes_below "$big/source")"
    rm -rf "$HOSTS/one"
}

bytes_below() {
    find "$1" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }'
}

# merge_on CODE RANKS-BY-HOST [options]: into $HOSTS/out; report in $HOSTS/report.json, bytes that left each host in $wire.
merge_on() {
    local code="$1" layout="$2" before after result=0
    shift 2
    rm -rf "$HOSTS/out" "$HOSTS/report.json"
    mapfile -t before < <(bytes_out)
    expect_code "$code" "$HERE/mpirun.sh" "$layout" merge --target_dir "$HOSTS/out" --report "$HOSTS/report.json" "$@" || result=1
    mapfile -t after < <(bytes_out)
    wire=()
    for ((i = 0; i < N_HOSTS; ++i)); do
        wire+=($((after[i] - before[i])))
    done
    expect_codes "$code" "$layout" || result=1
    return $result
}

expect_codes() { # CODE RANKS-BY-HOST: all ranks ended with it
    local codes
    codes="$(cat "$HOSTS"/ranks/*.code | sort | uniq -c | awk '{ print $1 "x" $2 }' | paste -sd' ')"
    [[ "$codes" == "$(awk -v RS=, -F: '{ n += $2 } END { print n }' <<<"$2")x$1" ]] || { fail "exit codes of ranks: $codes, expected $1"; return 1; }
}

expect_sum() { # SUM NAME: of $HOSTS/out
    [[ "$(sum_of "$HOSTS/out")" == "$1" ]] || fail "$2: not the files that one rank makes"
}

report_says() { # EXPRESSION NAME: Python over `report`, `sent` (by rank) and `read` (by rank)
    python3 - "$HOSTS/report.json" "$1" <<'P' || fail "$2: the report does not say: $1"
import json, sys
report = json.load(open(sys.argv[1]))
sent = [rank["bytes_sent"] for rank in report["ranks"]]
read = [rank["bytes_read"] for rank in report["ranks"]]
assert eval(sys.argv[2]), (report["plan"], report["ranks"])
P
}

sent_bytes() { # by all ranks, as the report says
    python3 -c 'import json, sys; print(sum(rank["bytes_sent"] for rank in json.load(open(sys.argv[1]))["ranks"]))' "$HOSTS/report.json"
}

total() {
    local sum=0 one
    for one in "$@"; do
        sum=$((sum + one))
    done
    echo "$sum"
}

# What the network saw lies between the payload and a little more: headers, acknowledgements, launch, metadata.
expect_wire() { # PAYLOAD NAME
    local seen
    seen="$(total "${wire[@]}")"
    ((seen >= $1 && seen <= $1 + $1 / 20 + 3000000)) || fail "$2: $seen bytes crossed the network, expected about $1"
    echo "$2: $1 bytes to send, $seen crossed the network"
}

# Each byte of the shard files is read once, by whomever: what ranks read according to the kernel, less what came out of sockets.
expect_read_once() { # FILE-BYTES NAME
    local read
    read="$(total $(cat "$HOSTS"/ranks/*.read))"
    read=$((read - $(total "${wire[@]}")))
    ((read <= $1 + $1 / 20 + 3000000 && read >= $1 - $1 / 20)) || fail "$2: $read bytes were read from files of $1 bytes"
    echo "$2: $1 bytes in shard files, $read read"
}

# nothing_left NAME: neither a target nor a partial directory, in shared and in local places; one message.
nothing_left() {
    local left
    left="$(find "$HOSTS" -maxdepth 1 -name '*out*'; all_hosts "find '$LOCAL' -maxdepth 1 -name '*out*'")"
    [[ -z "$left" ]] || fail "$1: left behind: $left"
    [[ "$(grep -c '^error' "$WORK/err")" == 1 ]] || fail "$1: not one message: $(<"$WORK/err")"
}
