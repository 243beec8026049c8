#!/usr/bin/env bash
# Every checkpoint of torch's own formats (FSDP, HSDP, tensor parallelism, plain tensors, DCP; torch 2.4 to 2.15): bit-equal to the model
# that was saved, its config.json too, and the same files at any number of ranks and with both strategies.
# Usage: torch_test.sh SHARDWELD TESTS. A case's case.json may name more "options" for the merge and what "config" differs in from the saved
# model's on purpose.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"
# Whose models are large enough for many steps of messages.
large=" fsdp2_tp_2x2_uneven_fp32_qwen2 fsdp2_w12_bf16_qwen2 fsdp1_nomesh_w2_fp32_llama fsdp2_w2_mixed_deepseek dcp_w2_bf16_qwen2 "

# options_of CASE-DIR: one a line.
options_of() {
    ! grep -q '"options"' "$1/case.json" || python3 -c 'import json, sys; print(*json.load(open(sys.argv[1]))["options"], sep="\n")' "$1/case.json"
}

# same_config CASE-DIR: config.json of $WORK/merged says what the saved model's says.
same_config() {
    [[ -e "$1/expected/config.json" ]] || return 0
    python3 -c 'import json, sys
got, expected, case = (json.load(open(path)) for path in sys.argv[1:])
expected.update(case.get("config", {}))
sys.exit("; ".join(f"{key} is {got.get(key)}, expected {expected.get(key)}" for key in {**expected, **got} if got.get(key) != expected.get(key)) or None)' \
        "$WORK/merged/config.json" "$1/expected/config.json" "$1/case.json" 2>"$WORK/compare" || fail "$(basename "$1"), config.json: $(cat "$WORK/compare")"
}

for dir in "$TESTS/data/torch"/*/; do
    dir="${dir%/}"
    name="$(basename "$dir")"
    [[ "$name" != *lora* ]] || continue  # lora_test.sh
    mapfile -t options < <(options_of "$dir")
    merge_in_many_ways "$dir" "2 3 5 8" "${options[@]}" || continue
    same_config "$dir"
    [[ "$large" != *" $name "* ]] || merge_in_small_messages "$dir" "${options[@]}"
done
finish
