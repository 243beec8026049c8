# Little bandwidth, shards on local disks: the same files, later. Times are for information, but for what the network cannot do.
make_big
spread "$big/source" h1 h1 h1 h1 h2 h2 h2
limit_rate "$RATE"
began=$EPOCHREALTIME
merge_on 0 "$(ranks_each 1)" --local_dir "$LOCAL/source" --hf_config "$big/hf" -q && {
    wall=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
    expect_sum "$big_sum" "limited"
    expect_wire "$(sent_bytes)" "limited"
    most="$(printf '%s\n' "${wire[@]}" | sort -n | tail -1)"
    rate="$(on_host h1 tc -j qdisc show dev eth0 | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["options"]["rate"])')"
    least="$(awk -v n="$most" -v r="$rate" 'BEGIN { print n / r }')"
    echo "limited to $RATE: $most bytes left the busiest host, $least s at least; the merge took $wall s"
    awk -v wall="$wall" -v least="$least" 'BEGIN { exit !(wall > 0.9 * least) }' || fail "limited: $wall s, faster than the network"
}
limit_rate none
