#!/usr/bin/env bash
# Every family that transformers can make small: FSDP rank files and DCP directories of its module, merged, hold what its own save_pretrained
# writes, byte for byte. Needs a Python with torch and transformers: $SHARDWELD_PYTHON, else python3. Skipped loudly without; a failure under
# SHARDWELD_REQUIRE=transformers.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HF_HUB_OFFLINE=1
python_with transformers torch transformers

made="${SHARDWELD_FAMILIES:-$WORK/made}"
[[ -d "$made" ]] || "$python" "$TESTS/support/make_families.py" "$TESTS/data/hf_names" "$made" >"$WORK/making" 2>&1 || fail "$(tail -5 "$WORK/making")"
for failed in "$made"/*.failed; do
    [[ ! -e "$failed" ]] || echo "not made by this transformers: $(basename "$failed" .failed): $(<"$failed")"
done
n_families=0
for expected in "$made"/*/expected; do
    dir="$(dirname "$expected")"
    for form in fsdp dcp; do
        [[ -d "$dir/$form" ]] || continue
        out="$WORK/$(basename "$dir").$form"
        expect_code 0 "$SHARDWELD" merge --local_dir "$dir/$form" --hf_config "$expected" --target_dir "$out" -q --no_fsync || continue
        python3 "$TESTS/support/compare_safetensors.py" "$out" "$expected" 2>"$WORK/compare" >/dev/null || fail "$(basename "$out"): $(<"$WORK/compare")"
    done
    n_families=$((n_families + 1))
done
echo "$n_families models"
# Recipes made anew of what is installed: a type that is cut, and one that it does not have.
PATH="$(dirname "$(command -v "$python")"):$PATH" expect_code 5 "$SHARDWELD" recipes generate laguna no_such --out "$WORK/recipes" && expect_text "no recipe could be proved for no_such"
grep -qx 'laguna cut' "$WORK/out" || fail "laguna: $(<"$WORK/out")"
[[ "$(ls "$WORK/recipes")" == laguna.recipe ]] || fail "recipes generate writes $(ls "$WORK/recipes")"
((n_families >= 100)) || fail "only $n_families models could be made"
finish
