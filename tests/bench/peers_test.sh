#!/usr/bin/env bash
# peers_test.sh BIN DIR ROOT: the cases beside other mergers, with a stand-in that has shardweld do what they would: each kind of result is compared, what
# differs is told, and a record has both sides.
set -euo pipefail
command -v python3 >/dev/null || { echo 'SKIPPED: python3 is not installed'; exit 77; }
bin=$1 root=$3
mkdir -p "$2"
work=$(mktemp -d "$2/peers.XXXXXX")
trap 'rm -rf "$work"' EXIT

# What a Python with the peers is asked for: PROGRAM NAME PATHS. $FLIP is a program that changes what they wrote.
cat >"$work/python" <<STAND_IN
#!/usr/bin/env bash
set -euo pipefail
case "\$2" in
    mergekit) "$bin/shardweld" merge --average "\$3" "\$4" --target_dir "\$5" -q ;;
    megatron_load_save) "$bin/shardweld" reshape --local_dir "\$3" --hf_config "\$4" --to torch_dist --target_dir "\$5" -q ;;
    dcp) "$bin/shardweld" reshape --local_dir "\$4" --to dcp:world=2 --target_dir "\$3/source" -q ;;
    dcp_to_torch) "$bin/shardweld" merge --local_dir "\$3" --hf_config "\$4" --target_dir "\$5" -q ;;
    llama_cpp) "$bin/shardweld" merge --local_dir "\$3" --quantize gguf:q8_0 --target_dir "\$5" -q ;;
    same_gguf) cmp -s "\$3" "\$4" && echo '{"tensors": 1, "different": 0}' || echo '{"tensors": 1, "different": 1}'; exit ;;
esac
[[ -z "\${FLIP:-}" || ! -d "\${5:-}" ]] || "\$FLIP" "\$5"
echo '{"work_s": 100, "peer": "stand-in"}'
STAND_IN
# The last byte of every file with weights.
cat >"$work/flip" <<'FLIP'
#!/usr/bin/env python3
import pathlib, sys
for path in pathlib.Path(sys.argv[1]).rglob("*"):
    if path.suffix in (".safetensors", ".gguf"):
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
FLIP
chmod +x "$work/python" "$work/flip"

measure() { # PEERS
    "$root/scripts/bench.sh" --quick --kind peer --peer "$1" --python "$work/python" --bin "$bin" --dir "$work/bench"
}
measure mergekit,dcp_to_torch,llama_cpp,megatron_load_save
python3 - "$work/bench/performance.json" <<'CHECK'
import json, sys

with open(sys.argv[1], encoding="utf-8") as file:
    records = {record["kind"]: record for record in json.load(file)["records"].values()}
assert len(records) == 4, records.keys()
for record in records.values():
    assert record["difference"]["different"] == 0 < record["difference"]["tensors"], record
    assert record["samples"]["peer"]["work_s"] == [100] and len(record["samples"]["merge"]["wall_s"]) == 1, record
    assert min(record["peak_bytes"], record["peer_peak_bytes"], record["input_bytes"]) > 0, record
CHECK
export FLIP=$work/flip
for peer in mergekit llama_cpp; do
    if said=$(measure "$peer" 2>&1); then
        echo "FAILED: $peer: a result with another byte is taken for equal" && exit 1
    fi
    [[ "$said" == *differ* ]] || { echo "FAILED: $said"; exit 1; }
done
echo "results are compared"
