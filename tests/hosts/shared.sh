# All hosts see all files.
make_big
merge_on 0 "$(ranks_each 1)" --local_dir "$big/source" --hf_config "$big/hf" -q --strategy direct && {
    expect_sum "$big_sum" "shared, direct"
    report_says 'report["plan"]["strategy"] == "direct" and sum(sent) == 0 and len(set(r["host"] for r in report["ranks"])) == len(sent)' "shared, direct"
    expect_wire 0 "shared, direct"
    expect_read_once "$big_bytes" "shared, direct"
}
for ranks in 1 2; do
    name="shared, collective, $ranks ranks a host"
    merge_on 0 "$(ranks_each $ranks)" --local_dir "$big/source" --hf_config "$big/hf" -q --strategy collective && {
        expect_sum "$big_sum" "$name"
        report_says 'report["plan"]["strategy"] == "collective" and min(sent) > 0 and report["plan"]["rounds"] > 1' "$name"
        ((ranks > 1)) || expect_wire "$(sent_bytes)" "$name"
        ((ranks > 1)) || expect_read_once "$big_bytes" "$name"
    }
done
