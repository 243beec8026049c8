# Each host sees only shard files of its own disk; the target is shared. $LOCAL/source is another directory on each host.
# local_case CASE-DIR: a fixture of real frameworks, its shards on all hosts and other files on the first; then with shards
# on two hosts, two ranks a host, other files not on the first.
local_case() {
    local dir="$1" name config=() sum
    name="$(basename "$dir")"
    [[ -n "$(find "$dir/source" -type d -name huggingface -print -quit)" ]] || config=(--hf_config "$dir/hf")
    expect_code 0 "$SHARDWELD" merge --local_dir "$dir/source" --target_dir "$HOSTS/one" "${config[@]}" -q
    sum="$(sum_of "$HOSTS/one")"
    rm -rf "$HOSTS/one"
    spread "$dir/source" h1 $(host_names)
    merge_local "$name, all hosts" "$sum" "$(ranks_each 1)" collective collective "${config[@]}"
    spread "$dir/source" h2 h1 h2
    merge_local "$name, two hosts" "$sum" "$(ranks_each 2)" auto direct "${config[@]}"
}

merge_local() { # NAME SUM RANKS-BY-HOST STRATEGY ITS-NAME-IN-THE-REPORT [options]
    local name="$1"
    merge_on 0 "$3" --local_dir "$LOCAL/source" -q --strategy "$4" "${@:6}" || { fail "$name"; return; }
    expect_sum "$2" "$name"
    report_says "report['plan']['strategy'] == '$5' and sum(sent) > 0" "$name"
}

legacy="$TESTS/data/megatron/llama-tp4-legacy-bf16"
dist="$TESTS/data/megatron/qwen2-tp2-pp2-torchdist-bf16"
fsdp="$TESTS/data/torch/fsdp2_w12_bf16_qwen2"
verl="$TESTS/data/megatron/verl-qwen3-tp2-pp2-torchdist-bf16"
hsdp="$TESTS/data/torch/hsdp2_w4_bf16_llama"
for dir in "$legacy" "$dist" "$fsdp" "$hsdp" "$verl"; do
    local_case "$dir"
done
make_big
# By tensor-parallel rank, the last host has nothing; by stage.
for name in "h1 h1 h1 h2 h2 h2" "h1 h2 h3"; do
    spread "$big/source" h1 $name
    merge_on 0 "$(ranks_each 1)" --local_dir "$LOCAL/source" --hf_config "$big/hf" -q || continue
    expect_sum "$big_sum" "0.1 GB on $name"
    expect_wire "$(sent_bytes)" "0.1 GB on $name"
    expect_read_once "$big_bytes" "0.1 GB on $name"
done
