#!/usr/bin/env bash
# newest-peers.sh DIR [--record] [CASE..]: what the newest training frameworks save, merged and compared with what they held.
#
# Makes a Python environment in DIR/venv with the newest releases that PyPI has (some 8 GB with PyTorch's CUDA libraries; PIP_EXTRA_INDEX_URL may
# name an index of builds for the CPU), in DIR/pins what verl and Megatron-Bridge require where the newest would not do, small checkpoints of each framework in DIR/made, and says what newest_peers.json does not know yet:
# versions, files, classes, warnings. --record writes that file. Python 3.12 is asked for, for pip takes older releases of Megatron's packages
# on 3.11 without a word; $PYTHON may name it. $SHARDWELD is the program, else build/bin/shardweld. Not part of the tests: it needs the network.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
dir="${1:?usage: newest-peers.sh DIR [--record] [CASE..]}"
shift
shardweld="${SHARDWELD:-$here/../build/bin/shardweld}"
python="${PYTHON:-python3.12}"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { echo "newest-peers.sh: $python is not Python 3.12 or later" >&2; exit 2; }
[[ -x "$shardweld" ]] || { echo "newest-peers.sh: there is no program $shardweld; build it, or name it with SHARDWELD" >&2; exit 2; }
mkdir -p "$dir"
[[ -x "$dir/venv/bin/python" ]] || "$python" -m venv "$dir/venv"

# install WHAT OPTION..: one group of packages; what cannot be installed is told, and its cases with it.
install() {
    "$dir/venv/bin/pip" install -q --upgrade "${@:2}" 2>"$dir/pip.log" || echo "not installed: $1: $(grep -m1 -E '^ERROR' "$dir/pip.log" || tail -1 "$dir/pip.log")"
}
install "torch and transformers" torch numpy transformers safetensors accelerate
# Their own requirements name versions older than the newest, or packages that need CUDA: what they import here is installed by name.
install megatron-core --no-deps megatron-core
install megatron-bridge --no-deps megatron-bridge megatron-energon nvidia-modelopt
DS_BUILD_OPS=0 install deepspeed --no-deps deepspeed  # it compiles what it needs when it needs it
install verl --no-deps verl
install torch_checkpointing torch_checkpointing
install "NeMo Automodel" --no-deps nemo-automodel
install "what these import" einops hjson msgpack ninja peft psutil py-cpuinfo omegaconf hydra-core tensordict codetiming pandas ray datasets pillow orjson \
    setuptools pyyaml
# What a package requires of others, where the newest would not do: in a directory that lies in front of the environment for its cases.
pinned() {
    local wanted
    wanted="$("$dir/venv/bin/python" - "$@" <<'PY'
import importlib.metadata, re, sys
package, *names = sys.argv[1:]
print(*[re.sub(r"[ ()]", "", line.split(";")[0]) for line in importlib.metadata.requires(package)
        if "extra ==" not in line and re.match(r"[\w.-]+", line)[0] in names])
PY
    )" || return 0
    rm -rf "$dir/pins/$1"
    # A requirement is a word.
    # shellcheck disable=SC2086
    "$dir/venv/bin/pip" install -q --target "$dir/pins/$1" $wanted 2>"$dir/pip.log" || echo "not installed: what $1 requires: $(tail -1 "$dir/pip.log")"
}
pinned verl transformers
pinned megatron-bridge transformers
rm -rf "$dir/made"
exec "$dir/venv/bin/python" "$here/newest_peers.py" "$shardweld" "$dir/made" "$@"
