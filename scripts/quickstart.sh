#!/usr/bin/env bash
# From nothing to a merged model on a fresh Debian 12: installs what is missing (apt), builds, merges a real Megatron
# checkpoint with four ranks and compares the result with the expected tensors.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_packages
build_shardweld "$ROOT/build" OFF OFF

CASE="$ROOT/tests/data/megatron/llama-tp4-legacy-bf16"
OUT="$(mktemp -d)/model"
mpirun -n 4 "$ROOT/build/bin/shardweld" merge --backend megatron --local_dir "$CASE/source" --hf_config "$CASE/hf" \
    --target_dir "$OUT"
python3 "$ROOT/tests/support/compare_safetensors.py" "$OUT" "$CASE/expected"
echo
echo "Built   $ROOT/build/bin/shardweld"
echo "Merged  $CASE/source (Megatron-LM, 4 tensor-parallel ranks) with mpirun -n 4"
echo "Into    $OUT:"
ls -l "$OUT" | awk 'NR > 1 { printf "        %8d  %s\n", $5, $9 }'
echo "Checked every tensor equal to the expected model, bit for bit"
