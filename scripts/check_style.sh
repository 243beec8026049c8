#!/usr/bin/env bash
# clang-format, the include graph and the includes of all sources, links and names in the documents, names of tests, rows of names, the size of their data; `--tidy BUILD_DIR` adds clang-tidy.
# It needs a configured build: the release preset's units take some minutes; the dev preset's, a file each, an hour, and the static
# analyser, which looks at no included file, then sees all functions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v clang-format >/dev/null || { echo "SKIPPED: clang-format is not installed"; exit 77; }

mapfile -t sources < <(find include src tests -name '*.[ch]pp' | sort)
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 100 clang-format --dry-run -Werror
python3 -B scripts/check_includes.py
python3 scripts/check_docs.py
python3 scripts/check_tests.py
python3 scripts/check_rules.py
data_bytes=$(find tests/data -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
if ((data_bytes > 50 * 1024 * 1024)); then
    echo "tests/data has $data_bytes bytes, over 50 MiB: remove what another case tests, too"
    exit 1
fi
if [[ "${1:-}" == "--tidy" ]]; then
    python3 - "$2" <<'UNITS' | xargs -P "$(nproc)" -n 1 clang-tidy -p "$2" --quiet --warnings-as-errors='*' 2>/dev/null
import json, pathlib, sys
build = pathlib.Path(sys.argv[1]).resolve()
units = {pathlib.Path(one["file"]) for one in json.loads((build / "compile_commands.json").read_text())}
print(*sorted(str(unit) for unit in units if not {"tests", "generated"} & set(unit.relative_to(build.parent).parts)), sep="\n")
UNITS
fi
