# What findings have in common: environments in a temporary folder, which is removed at the end.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

# environment NAME PACKAGES...: the interpreter in $python.
environment() {
    "${PYTHON:-python3.12}" -m venv "$work/$1"
    python=$work/$1/bin/python
    "$python" -m pip install -q --disable-pip-version-check "${@:2}"
}
